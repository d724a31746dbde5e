"""What goes on in a test beside its checks: stand-ins, waits, retries, exceptions that are swallowed."""

from __future__ import annotations

import ast

from mngr.tmr.verify.legacy import escapes, values, variables
from mngr.tmr.verify.legacy.asking import is_program
from mngr.tmr.verify.legacy.resolve import Resolver

_SWALLOWERS = frozenset(("contextlib.suppress", "suppress"))


class Watching(Resolver):
    """The part of a walk that notices ways around a check."""

    def watch(self, name: str, made: ast.Call) -> None:
        if names := self.module.outside(made):
            self.asked.append(names)
        if found := escapes.of_call(name, made):
            self.escape(*found)
        for variable, given in variables.of_call(name, made):
            self.escape(variables.rule(variable), f"{variable}={given}")
        for keyword in made.keywords:
            if found := escapes.of_keyword(made, keyword):
                self.escape(*found)
        if (command := escapes.command_of(made)) and self.module.traces(made):
            for found in escapes.of_command(command):
                self.escape(*found)
        if name.endswith("enter_context") and made.args and self.swallows(made.args[0], made.args[0]):
            self.conditions.append("unless it fails")
        fills = isinstance(made.func, ast.Attribute) and made.func.attr in {"update", "setdefault"}
        if fills and isinstance(made.func, ast.Attribute) and self._is_programs(made.func.value):
            self._put(values.text(made.func.value), made)
        if name.endswith(".push") and made.args and self._forgives(made.args[0]):
            self.conditions.append("unless it fails")
        if name.endswith("chdir"):
            self.cwd_moved = True

    def _forgives(self, node: ast.expr) -> bool:
        """Whether a callback that is told of an exception says that it is dealt with."""
        if isinstance(node, ast.Lambda):
            return bool(values.value(node.body))
        name = node.id if isinstance(node, ast.Name) else ""
        function = self.nested.get(name) or self.module.functions.get(name)
        ends = [part.value for part in ast.walk(function) if isinstance(part, ast.Return)] if function else []
        return any(end is not None and values.value(end) not in (None, False) for end in ends)

    def escape_of(self, node: ast.expr, made: ast.expr) -> None:
        """A context manager that stands in for something."""
        bare = not isinstance(made, ast.Call) and isinstance(node, ast.Attribute)
        if bare and (found := escapes.of_decorator(node, values.text(node))):
            self.escape(*found)

    def assigned(self, node: ast.Assign) -> None:
        """An attribute of something that is not the test's own is set: a stand-in."""
        for target in node.targets:
            shown = values.text(node)[:200]
            name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
            if isinstance(target, ast.Name) and name in self.module.imports:
                self.escape("mock", shown)
            if found := escapes.of_limit(name, node.value):
                self.escape(*found)
            if isinstance(target, ast.Attribute):
                base = self.resolve(target.value)
                root = base
                while isinstance(root, ast.Attribute | ast.Subscript):
                    root = root.value
                whole = values.text(ast.Attribute(value=base, attr=target.attr, ctx=ast.Load()))
                outside = isinstance(root, ast.Name) and root.id in {
                    *self.module.imports.values(),
                    "sys.modules",
                }
                if outside or "request.node." in whole or "import_module(" in whole or "__import__(" in whole:
                    self.escape("mock", shown)
            elif isinstance(target, ast.Subscript):
                base_text = values.text(self.resolve(target.value))
                if base_text.endswith(("sys.modules", "__dict__", "globals()", "__builtins__")):
                    self.escape("mock", shown)
                elif "environ" in base_text or values.text(target.value).lower().endswith("env"):
                    variable = str(values.value(self.resolve(target.slice)))
                    found_value = values.value(self.resolve(node.value))
                    given = "…" if found_value is values.UNKNOWN else found_value
                    self.escape(variables.rule(variable), f"{variable}={given}")
                elif self._is_programs(target.value):
                    self._put(values.text(target), self.resolve(node.value))

    def _is_programs(self, node: ast.expr) -> bool:
        """Whether a table is one that a module of the program has."""
        root = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        name = root.id if isinstance(root, ast.Name) else ""
        whole = self.module.imports.get(name, name)
        imported = {source.split(".")[0] for source in self.module.imports.values()}
        return name not in self.env and whole.split(".")[0] in imported and is_program(whole)

    def _put(self, place: str, made: ast.expr) -> None:
        """Something is put into the program's own tables: see answers.py."""
        if isinstance(made, ast.Lambda) or (isinstance(made, ast.Name) and made.id in self.nested):
            self.escape("mock", f"{place} = {values.text(made)}"[:200])
        found = [values.value(made)] if values.known(made) else values.literals(made)
        for item in found:
            self.escape("environment", f"{place}={item}")

    def retry(self, node: ast.stmt) -> None:
        """A loop that tries something until it is as wished."""
        inside = [part for part in ast.walk(node) if part is not node]
        tests = [part for part in inside if isinstance(part, ast.If | ast.Try)]
        leaves = any(isinstance(end, ast.Break | ast.Return | ast.Continue) for part in tests for end in ast.walk(part))
        if leaves:
            runs = sorted({values.text(p.func) for p in inside if isinstance(p, ast.Call)})
            self.escape("retry", "loop " + " ".join(runs))

    def swallows(self, node: ast.expr, made: ast.expr) -> bool:
        """Whether a context manager lets a failing check pass."""
        target = made.func if isinstance(made, ast.Call) else made
        name = values.text(target)
        if name in _SWALLOWERS:
            return True
        written = node.func if isinstance(node, ast.Call) else node
        local = values.text(written)
        function = self.module.functions.get(local) or self.nested.get(local)
        if function is not None:
            tries = [part for part in ast.walk(function) if isinstance(part, ast.Try)]
            return any(
                any(isinstance(inner, ast.Yield) for inner in ast.walk(part))
                and any(not any(isinstance(s, ast.Raise) for s in ast.walk(h)) for h in part.handlers)
                for part in tries
            )
        owner = self.module.classes.get(local)
        leave = self.module.methods(owner).get("__exit__") if owner else None
        ends = [part for part in ast.walk(leave) if isinstance(part, ast.Return)] if leave else []
        return any(end.value is not None and values.value(end.value) not in (None, False) for end in ends)
