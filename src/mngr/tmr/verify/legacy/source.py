"""A test file as pytest would see it: which names stand for what, and which tests it would collect."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator

from mngr.tmr.verify.legacy import driven, values
from mngr.tmr.verify.legacy.writing import dumped

WORK = 3_500  # steps of all walks through one file, large expressions counted as several
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Modules of the standard library that tell nothing of the world: what they make, the test has said.
_PURE = frozenset(
    "types unittest json re collections itertools functools textwrap string math operator copy dataclasses enum typing "
    "decimal fractions contextlib io pprint base64 hashlib abc struct statistics datetime warnings inspect ast html "
    "shlex sys argparse uuid random bisect heapq numbers errno signal stat locale __future__".split()
)
_PURE_NAMES = frozenset("os.path os.sep os.linesep os.fspath os.pathsep os.name urllib.parse".split())
_PURE_PATHS = frozenset("join basename dirname splitext normpath split abspath".split())
_READING = frozenset(
    "read_text read_bytes exists is_file is_dir is_symlink stat iterdir glob rglob open readlink resolve".split()
)
_INERT = frozenset(
    "CompletedProcess CalledProcessError TimeoutExpired PIPE DEVNULL STDOUT SimpleNamespace sleep".split()
)
_BUILTIN = (frozenset(dir(builtins)) - {"open", "input"}) | set(
    "each text gathered listof changed raised called endless __file__ __name__ __doc__".split()
)
_ASKED = frozenset(("args", "argv", "command", "cmd", "__doc__", "__name__"))
_PLAIN_FIXTURES = frozenset(("monkeypatch", "mocker", "request"))


class Test:
    """One function that pytest runs."""

    def __init__(self, name: str, node: Function, owner: ast.ClassDef | None, conditions: tuple[str, ...]) -> None:
        self.name = name
        self.node = node
        self.owner = owner
        self.conditions = conditions

    def dump(self) -> str:
        """All of it, to be compared."""
        return f"{dumped(self.node)}{dumped(self.owner) if self.owner else ''}{self.conditions}"

    @property
    def doc(self) -> str:
        """Its docstring and the blocks it cites."""
        parts = [ast.get_docstring(self.node) or ""]
        for node in ast.walk(self.node):
            if isinstance(node, ast.Call) and called(node).endswith("write_tutorial_block"):
                parts += [str(item) for item in values.literals(node)]
        return "\n".join(parts)


class Module:
    """The names of a file, each as it is once the whole file was read: later ones replace earlier ones."""

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        self.lines = source.splitlines()
        self.imports: dict[str, str] = {}
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.constants: dict[str, ast.expr] = {}
        self.conditions: dict[str, tuple[str, ...]] = {}
        self.off: set[str] = set()  # what says of itself that it is no test
        self.body: list[ast.stmt] = []  # statements that are run on import
        self.shadowed: dict[str, int] = {}  # names of functions that were defined twice, where
        for statement, conditions in _live(self.tree.body, ()):
            self._read(statement, conditions)
        self.tests = {test.name: test for test in self._tests()}
        self.fixtures = {name: node for name, node in self.functions.items() if is_fixture(node)}
        self._tracing: dict[str, bool] = {}
        self._driven: dict[str, set[int]] = {}
        self._returned: dict[str, list[ast.expr]] | None = None
        self.left = WORK

    def _read(self, statement: ast.stmt, conditions: tuple[str, ...]) -> None:
        match statement:
            case ast.Import(names=names):
                for alias in names:
                    self._bind(alias.asname or alias.name.split(".")[0])
                    self.imports[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            case ast.ImportFrom(module=module, names=names, level=level):
                for alias in names:
                    self._bind(alias.asname or alias.name)
                    self.imports[alias.asname or alias.name] = f"{'.' * level}{module or ''}.{alias.name}"
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name in self.functions:
                    self.shadowed[name] = statement.lineno
                self._bind(name)
                self.functions[name] = statement
                self.conditions[name] = conditions
            case ast.ClassDef(name=name):
                self._bind(name)
                self.classes[name] = statement
                self.conditions[name] = conditions
            case ast.Assign(targets=[ast.Name(id=name)], value=found):
                self._assign(name, found)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as found):
                self._assign(name, found)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr="__test__")]):
                self.off.add(name)
            case ast.Delete(targets=targets):
                self.body.append(statement)
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._bind(target.id)
            case _ if not any("__name__" in condition for condition in conditions):
                self.body.append(statement)

    def _assign(self, name: str, found: ast.expr) -> None:
        self._bind(name)
        self.constants[name] = found

    def _bind(self, name: str) -> None:
        for table in (self.imports, self.functions, self.classes, self.constants):
            table.pop(name, None)

    def _tests(self) -> Iterator[Test]:
        for name, node in self.functions.items():
            if name.startswith("test") and name not in self.off and not is_fixture(node):
                yield Test(name, node, None, self.conditions[name])
        for name, owner in self.classes.items():
            if name in self.off or not self._collects(owner):
                continue
            for method in self.methods(owner).values():
                if method.name.startswith("test") and not is_fixture(method):
                    yield Test(f"{name}::{method.name}", method, owner, self.conditions[name])

    def _collects(self, owner: ast.ClassDef) -> bool:
        methods = self.methods(owner)
        for statement in owner.body:
            if isinstance(statement, ast.Assign) and values.text(statement.targets[0]) == "__test__":
                return bool(values.value(statement.value))
        if any("TestCase" in values.text(base) for base in owner.bases):
            return True
        return owner.name.startswith("Test") and "__init__" not in methods

    def methods(self, owner: ast.ClassDef) -> dict[str, Function]:
        """What a class of this file and those above it define."""
        found: dict[str, Function] = {}
        for base in owner.bases:
            if isinstance(base, ast.Name) and base.id in self.classes and self.classes[base.id] is not owner:
                found.update(self.methods(self.classes[base.id]))
        for statement, _ in _live(owner.body, ()):
            if isinstance(statement, Function):
                found[statement.name] = statement
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                found.pop(statement.targets[0].id, None)
        return found

    def driven(self, kind: str) -> set[int]:
        """The calls that are awaited, gone through, or entered."""
        if kind not in self._driven:
            self._driven[kind] = driven.runs(self.tree, kind)
        return self._driven[kind]

    def returned(self, name: str) -> list[ast.expr]:
        """What the functions of this name may return, wherever in the file they are."""
        if self._returned is None:
            self._returned = {}
            for function in ast.walk(self.tree):
                if isinstance(function, Function):
                    ends = [p.value for p in own_nodes(function) if isinstance(p, ast.Return) and p.value]
                    self._returned.setdefault(function.name, []).extend(ends)
        return self._returned.get(name, [])

    def packages(self) -> set[str]:
        """The packages that the file imports from."""
        return {name.lstrip(".").split(".")[0] for name in self.imports.values()}

    def outside(self, node: ast.AST) -> frozenset[str]:
        """The names of the world outside of the file in an expression."""
        return frozenset(self._reach(node)[0])

    def spend(self, amount: int) -> bool:
        """Whether there is still so much work to be done on this file."""
        self.left -= amount
        return self.left >= 0

    def traces(self, node: ast.AST) -> bool:
        """Whether what it comes to depends on anything but this file: the program, a fixture, a file."""
        kept = f"_mngr_traces_{id(self)}"
        if kept not in node.__dict__:
            node.__dict__[kept] = self._depends(node)
        return bool(node.__dict__[kept])

    def _depends(self, node: ast.AST) -> bool:
        found, reads = self._reach(node)
        if not reads:
            found = {name for name in found if not name.startswith("pathlib.")}
        if "__file__" in found:  # it reads itself
            found = {name for name in found if not name.startswith(("pathlib.", "open", "os.", "__file__"))}
        return bool(found)

    def _reach(self, node: ast.AST) -> tuple[frozenset[str] | set[str], bool]:
        """The names of the world outside in an expression, and whether it reads files; kept with the node."""
        kept = f"_mngr_reach_{id(self)}"
        if (known := node.__dict__.get(kept)) is not None:
            return known  # type: ignore[no-any-return]
        found: set[str] = set()
        reads = isinstance(node, ast.Attribute) and node.attr in _READING
        if isinstance(node, ast.Name) and (node.id == "__file__" or self._traces(node)):
            found.add(node.id)
        for part in _inside(node):
            names, more = self._reach(part)
            found |= names
            reads = reads or more
        if isinstance(node, ast.Lambda):
            found -= {arg.arg for arg in _all(node.args)}
        node.__dict__[kept] = (frozenset(found), reads)
        return found, reads

    def _traces(self, part: ast.AST) -> bool:
        if not isinstance(part, ast.Name):
            return False
        name = part.id
        if name.startswith("given "):
            return False
        first, _, rest = name.lstrip(".").partition(".")
        if name in _BUILTIN or name in _PLAIN_FIXTURES or first == "pytest":
            return False
        if name in self.functions or name in self.classes:
            return self._body_traces(name)
        if "." in name and first in sys.stdlib_module_names:
            last = rest.rsplit(".", 1)[-1]
            if last in _INERT or first in _PURE or name in _PURE_NAMES or name.startswith("urllib.parse"):
                return False
            return not (name.startswith("os.path.") and last in _PURE_PATHS)
        return first not in sys.stdlib_module_names

    def _body_traces(self, name: str) -> bool:
        if name not in self._tracing:
            self._tracing[name] = False  # for those that call themselves
            node = self.functions.get(name) or self.classes[name]
            bound = {arg.arg for part in ast.walk(node) if isinstance(part, ast.arguments) for arg in _all(part)}
            bound |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            self._tracing[name] = any(
                isinstance(part, ast.Name)
                and part.id not in bound
                and any(self._traces(n) for n in ast.walk(self.qualified(part)))
                for part in ast.walk(node)
            )
        return self._tracing[name]

    def qualified(self, node: ast.Name) -> ast.expr:
        """What a name of the file stands for."""
        if node.id in self.imports:
            return ast.Name(id=self.imports[node.id], ctx=ast.Load())
        if node.id == "tmpdir" and node.id not in self.functions:
            return ast.Name(id="tmp_path", ctx=ast.Load())  # the same directory under its old name
        return node


def _all(arguments: ast.arguments) -> list[ast.arg]:
    more = [arg for arg in (arguments.vararg, arguments.kwarg) if arg]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Its parts, but what only names the thing asked: `result.args` is what the test gave, not what it got."""
    if isinstance(node, ast.Attribute) and node.attr in _ASKED and not values.text(node.value).startswith("raised("):
        return
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in sys.stdlib_module_names:
            yield ast.Name(id=f"{name}.{attr}", ctx=ast.Load())
            return
    yield from ast.iter_child_nodes(node)


def _live(body: list[ast.stmt], conditions: tuple[str, ...]) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    """Statements that may be reached, with what must hold for that."""
    for statement in body:
        match statement:
            case ast.If(test=test, body=then, orelse=orelse):
                found = values.value(test)
                if found is values.UNKNOWN or found:
                    inner = conditions if found is not values.UNKNOWN else (*conditions, f"if {values.text(test)}")
                    yield from _live(then, inner)
                if found is values.UNKNOWN or not found:
                    inner = conditions if found is not values.UNKNOWN else (*conditions, f"if not {values.text(test)}")
                    yield from _live(orelse, inner)
            case ast.Try(body=then, handlers=handlers, orelse=orelse, finalbody=final):
                yield from _live([*then, *orelse, *final], conditions)
                for handler in handlers:
                    yield from _live(
                        [s for s in handler.body if not isinstance(s, ast.Assign)], (*conditions, "except")
                    )
            case ast.With(body=then):
                yield from _live(then, conditions)
            case _:
                yield statement, conditions


def called(node: ast.Call) -> str:
    """The name a call goes by, as it is written."""
    return values.text(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""


def is_fixture(node: Function) -> bool:
    """Whether pytest takes it for a fixture."""
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(target, ast.Name | ast.Attribute) and values.text(target).split(".")[-1] == "fixture":
            return True
    return False


def own_nodes(node: Function) -> list[ast.AST]:
    """What is in a function, without the functions inside it."""
    found: list[ast.AST] = []
    todo: list[ast.AST] = list(node.body)
    while todo:
        part = todo.pop()
        if isinstance(part, Function | ast.Lambda):
            continue
        found.append(part)
        todo.extend(ast.iter_child_nodes(part))
    return found
