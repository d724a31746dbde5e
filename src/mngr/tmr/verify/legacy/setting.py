"""What is there before the first statement of a test: rows of parameters, fixtures, what a class sets up."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator

from mngr.tmr.verify.legacy import values
from mngr.tmr.verify.legacy.calls import Calls
from mngr.tmr.verify.legacy.returns import joined
from mngr.tmr.verify.legacy.source import Function, is_fixture


class Setting(Calls):
    """The part of a walk that comes before the test."""

    @property
    def fixtures(self) -> dict[str, Function]:
        """Those of the file, and of the class that the test is in."""
        methods = self.module.methods(self.owner) if self.owner else {}
        return {**self.module.fixtures, **{name: node for name, node in methods.items() if is_fixture(node)}}

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """What was learned on the way, of conditions, is forgotten at the end."""
        before = list(self.conditions)
        yield
        self.conditions = before

    def rows(self, node: Function, owner: ast.ClassDef | None) -> list[dict[str, ast.expr]]:
        rows: list[dict[str, ast.expr]] = [{}]
        above = list(owner.decorator_list) if owner else []
        for decorator in [*node.decorator_list, *above]:
            if isinstance(decorator, ast.Call) and values.text(decorator.func).endswith("parametrize"):
                given = self.parameters(decorator)
                if given is not None:
                    rows = [{**row, **new} for row in rows for new in given][:400]
        for name in names(node):
            fixture = self.fixtures.get(name)
            for decorator in fixture.decorator_list if fixture else []:
                listed = [k.value for k in getattr(decorator, "keywords", []) if k.arg == "params"]
                items = self.elements(self.resolve(listed[0])) if listed else None
                if items is not None:
                    rows = [{**row, f"request.param of {name}": self.param(i)} for row in rows for i in items]
        return rows

    def surroundings(self, node: Function, owner: ast.ClassDef | None) -> None:
        """Fixtures that come by themselves, and what a class sets up."""
        for name, fixture in self.fixtures.items():
            if any(
                k.arg == "autouse" and values.value(k.value)
                for d in fixture.decorator_list
                for k in getattr(d, "keywords", [])
            ) and name not in names(node):
                self.fixture(name)
        for name in self._asked_for(node, owner):
            if name in self.fixtures and name not in names(node):
                self.fixture(name)
        if owner:
            methods = self.module.methods(owner)
            for name in ("setup_class", "setUpClass", "setup_method", "setUp"):
                if name in methods:
                    self.inline(methods[name], [], [], bound=True)

    def _asked_for(self, node: Function, owner: ast.ClassDef | None) -> list[str]:
        """The fixtures that marks of the test, its class and its file name."""
        marks = [*node.decorator_list, *(owner.decorator_list if owner else [])]
        own = self.module.constants.get("pytestmark")
        marks += own.elts if isinstance(own, ast.List | ast.Tuple) else [own] if own is not None else []
        used = [m for m in marks if isinstance(m, ast.Call) and values.text(m.func).endswith("usefixtures")]
        return [str(values.value(arg)) for mark in used for arg in mark.args]

    def arguments(self, node: Function) -> None:
        for name in names(node):
            if name in self.fixtures and name not in self.env:
                self.env[name] = self.fixture(name)
        spec = node.args
        for arg, default in zip(reversed(spec.args), reversed(spec.defaults), strict=False):
            self.env.setdefault(arg.arg, self.resolve(default))
        for arg, given in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if given is not None:
                self.env.setdefault(arg.arg, self.resolve(given))

    def fixture(self, name: str) -> ast.expr:
        """What a fixture of this file hands to the test."""
        node = self.fixtures[name]
        outer, self.env = (
            self.env,
            {key: found for key, found in self.env.items() if key.startswith("request.param of ")},
        )
        if f"request.param of {name}" in self.env:
            self.env["request.param"] = self.env[f"request.param of {name}"]
        self.depth += 1
        try:
            if self.depth > 8:
                return ast.Name(id=name, ctx=ast.Load())
            self.arguments(node)
            self.returns.append([])
            with self.scope():
                self.block(node.body)
            found = joined(self.returns.pop())
        finally:
            self.depth -= 1
            self.env = outer
        return found if found is not None else ast.Constant(value=None)

    def parameters(self, decorator: ast.Call) -> list[dict[str, ast.expr]] | None:
        """The rows of `parametrize`, by name; None where only a run would tell."""
        if len(decorator.args) < 2:
            return None
        named = values.value(self.resolve(decorator.args[0]))
        names = [n.strip() for n in named.split(",")] if isinstance(named, str) else named
        rows = self.elements(self.resolve(decorator.args[1]))
        if rows is None or not isinstance(names, list | tuple):
            return None
        made = []
        for row in rows:
            plain = self.param(row)
            cells = [plain] if len(names) == 1 and isinstance(named, str) else self.elements(plain)
            if cells is None:
                return None
            made.append(dict(zip(map(str, names), cells, strict=False)))
        return made

    def param(self, row: ast.expr) -> ast.expr:
        """A row, and what `pytest.param` says about it."""
        if not (isinstance(row, ast.Call) and values.text(row.func).endswith("param")):
            return row
        for keyword in row.keywords:
            for part in ast.walk(keyword.value) if keyword.arg == "marks" else []:
                name = values.text(part) if isinstance(part, ast.Name | ast.Attribute) else ""
                if name.rsplit(".", 1)[-1] in {"skip", "skipif", "xfail", "flaky"}:
                    self.escape("skip" if "skip" in name else name.rsplit(".", 1)[-1], f"a row: {values.text(row)}")
        return row.args[0] if len(row.args) == 1 else ast.Tuple(elts=row.args, ctx=ast.Load())


def names(node: Function) -> list[str]:
    spec = node.args
    return [arg.arg for arg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]]
