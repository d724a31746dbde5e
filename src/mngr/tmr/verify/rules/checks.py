"""Lists the checks of a function, and what decides whether each of them runs and counts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from mngr.base.model import Struct
from mngr.tmr.verify.rules.python_source import FunctionNode, format_name, get_last_part, walk_own_nodes

NEVER = "never"  # the guard of a check that cannot run
_CHECK_PREFIXES = ("assert", "check", "expect", "verify", "ensure", "should", "must")
_CHECK_NAMES = frozenset(
    ("raises", "warns", "deprecated_call", "raise_for_status", "fail", "fail_after", "wait_for", "wait_until")
)
_FRAMEWORKS = ("pytest", "unittest", "?", "self", "expect", "numpy", "pandas", "subprocess", "mngr.e2e")
_LINK_PREFIXES = ("to_", "not_to_")
BROAD_EXCEPTIONS = frozenset(("Exception", "BaseException", "AssertionError"))
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_EXIT_CALLS = frozenset(
    ("pytest.skip", "pytest.exit", "pytest.xfail", "sys.exit", "os._exit", "exit", "quit", "self.skipTest")
)


class Check(Struct):
    """One check of a function."""

    text: str  # its code without the message
    line: int
    node: ast.expr
    guards: tuple[str, ...] = ()  # conditions under which it runs
    swallowed_at: int = 0  # the line of the construct that hides its failure, 0 if nothing does


def list_checks(function: FunctionNode, origins: dict[str, str], checking_functions: frozenset[str]) -> list[Check]:
    """Return the checks of a function. Calls of `checking_functions`, which check something themselves, count."""
    return _CheckReader(function, origins, checking_functions).read()


def is_check_call(node: ast.Call, origins: dict[str, str], checking_functions: frozenset[str]) -> bool:
    """True when a call checks something, as far as its name tells."""
    name = format_name(node.func, origins)
    last = get_last_part(name)
    passed = {argument.id for argument in node.args if isinstance(argument, ast.Name)}
    if last in checking_functions or passed & checking_functions:
        return True
    if name in ("subprocess.run", "subprocess.check_call", "subprocess.check_output"):
        checked = any(keyword.arg == "check" and _is_true(keyword.value) for keyword in node.keywords)
        return checked or name != "subprocess.run"
    if last.startswith(_LINK_PREFIXES) or last in _CHECK_NAMES or last.startswith("assert"):
        return True
    is_imported = name.split(".")[0] != name and not name.startswith(_FRAMEWORKS)
    return last == "check_returncode" or (is_imported and last.startswith(_CHECK_PREFIXES))


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)


class _CheckReader:
    """Walks the statements of one function with the conditions around them."""

    def __init__(self, function: FunctionNode, origins: dict[str, str], checking: frozenset[str]) -> None:
        self._function, self._origins, self._checking = function, origins, checking
        self._parameters = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
        self._checks: list[Check] = []
        self._blocks_with_checks_left = 0  # enclosing blocks that check something after the current statement

    def read(self) -> list[Check]:
        self._read_block(self._function.body, (), 0)
        return self._checks

    def _read_block(self, body: Sequence[ast.stmt], guards: tuple[str, ...], hidden: int) -> None:
        """Read statements in order. An exit before a check is a guard of the check."""
        for index, node in enumerate(body):
            checks_later = any(self._contains_check(later) for later in body[index + 1 :])
            self._blocks_with_checks_left += checks_later
            self._read_statement(node, guards, hidden)
            self._blocks_with_checks_left -= checks_later
            if self._is_exit(node):
                guards = (*guards, NEVER)
            elif isinstance(node, ast.If) and not node.orelse and any(self._is_exit(part) for part in node.body[-1:]):
                guards = (*guards, f"if not ({ast.unparse(node.test)})")

    def _is_exit(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return format_name(node.value.func, self._origins) in _EXIT_CALLS
        return isinstance(node, _EXITS)

    def _read_statement(self, node: ast.stmt, guards: tuple[str, ...], hidden: int) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return
            case ast.If(test=test):
                self._add_expressions([test], guards, hidden)
                condition = ast.unparse(test)
                self._read_block(node.body, (*guards, *_guard_if(test, f"if {condition}", False)), hidden)
                self._read_block(node.orelse, (*guards, *_guard_if(test, f"if not ({condition})", True)), hidden)
            case ast.While(test=test):
                self._add_expressions([test], guards, hidden)
                self._read_block(node.body, (*guards, *_guard_if(test, f"while {ast.unparse(test)}", False)), hidden)
                self._read_block(node.orelse, guards, hidden)
            case ast.For() | ast.AsyncFor():
                self._add_expressions([node.iter], guards, hidden)
                self._read_block(node.body, (*guards, *_guard_loop(node)), hidden)
                self._read_block(node.orelse, guards, hidden)
            case ast.Try():
                self._read_try(node, guards, hidden)
            case ast.With() | ast.AsyncWith():
                self._read_with(node, guards, hidden)
            case ast.Match():
                self._add_expressions([node.subject], guards, hidden)
                for case in node.cases:
                    self._read_block(case.body, (*guards, f"case {ast.unparse(case.pattern)}"), hidden)
            case ast.Assert(test=test):
                self._checks.append(
                    Check(text=ast.unparse(test), line=node.lineno, node=test, guards=guards, swallowed_at=hidden)
                )
                self._add_expressions(list(ast.iter_child_nodes(test)), guards, hidden)
            case ast.Raise(exc=ast.expr() as error):
                self._add_failure(error, node.lineno, guards, hidden)
            case _:
                self._add_expressions([node], guards, hidden)

    def _read_try(self, node: ast.Try, guards: tuple[str, ...], hidden: int) -> None:
        fails_later = bool(self._blocks_with_checks_left) or any(
            self._contains_check(part) for part in (*node.orelse, *node.finalbody)
        )
        swallower = next((handler for handler in node.handlers if self.is_swallowing(handler)), None)
        is_hidden = swallower is not None and not fails_later
        self._read_block(node.body, guards, swallower.lineno if swallower is not None and is_hidden else hidden)
        for handler in node.handlers:
            self._read_block(handler.body, (*guards, "except"), hidden)
        self._read_block(node.orelse, guards, hidden)
        self._read_block(node.finalbody, guards, hidden)

    def is_swallowing(self, handler: ast.ExceptHandler) -> bool:
        """True when a handler catches failed assertions and does not fail itself."""
        if handler.type is not None and not is_broad(handler.type, self._origins):
            return False
        return not any(self._contains_check(part) for part in handler.body)

    def is_parameter_call(self, node: ast.AST) -> bool:
        """True when a node calls a function that was passed in."""
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._parameters

    def _contains_check(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Assert | ast.Raise):
            return True
        return any(
            isinstance(part, ast.Assert | ast.Raise)
            or (isinstance(part, ast.Call) and is_check_call(part, self._origins, self._checking))
            for part in walk_own_nodes(node)
        )

    def _read_with(self, node: ast.With | ast.AsyncWith, guards: tuple[str, ...], hidden: int) -> None:
        for item in node.items:
            self._add_expressions([item.context_expr], guards, hidden)
            if is_hiding_context(item.context_expr, self._origins):
                hidden = node.lineno
        if any(_is_raises(item.context_expr, self._origins) for item in node.items):
            self._read_block(node.body[:1], guards, hidden)
            self._read_block(node.body[1:], (*guards, "nothing is raised before it"), hidden)
        else:
            self._read_block(node.body, guards, hidden)

    def _add_failure(self, error: ast.expr, line: int, guards: tuple[str, ...], hidden: int) -> None:
        """Add the check `if CONDITION: fail`, with the condition as its text."""
        condition = guards[-1] if guards else "always"
        self._checks.append(
            Check(text=f"fail: {condition}", line=line, node=error, guards=guards[:-1], swallowed_at=hidden)
        )

    def _add_expressions(self, nodes: Sequence[ast.AST], guards: tuple[str, ...], hidden: int) -> None:
        """Add the calls in these nodes that check something."""
        for root in nodes:
            for node in (root, *walk_own_nodes(root)):
                if isinstance(node, ast.Call) and is_check_call(node, self._origins, self._checking):
                    if get_last_part(format_name(node.func, self._origins)) == "fail":
                        self._add_failure(node, node.lineno, guards, hidden)
                        continue
                    self._checks.append(
                        Check(
                            text=_format_call(node), line=_get_line(node), node=node, guards=guards, swallowed_at=hidden
                        )
                    )


def list_hidden_lines(function: FunctionNode, origins: dict[str, str]) -> Iterator[int]:
    """Yield the line of each handler that hides failures of a function that was passed in, or of a `with` block."""
    reader = _CheckReader(function, origins, frozenset())
    for node in walk_own_nodes(function):
        if isinstance(node, ast.Try) and any(reader.is_swallowing(handler) for handler in node.handlers):
            parts = [inner for statement in node.body for inner in (statement, *walk_own_nodes(statement))]
            if any(isinstance(part, ast.Yield) or reader.is_parameter_call(part) for part in parts):
                yield node.lineno


def _get_line(node: ast.Call) -> int:
    return node.func.end_lineno or node.lineno


def _format_call(node: ast.Call) -> str:
    """Return the code of a call. A link of a chain such as `expect(x).to_contain(a).to_contain(b)` is shown alone."""
    subject = node.func
    while isinstance(subject, ast.Attribute) and isinstance(subject.value, ast.Call):
        inner = subject.value
        if not (isinstance(inner.func, ast.Attribute) and inner.func.attr.startswith(_LINK_PREFIXES)):
            break
        subject = inner.func
    if subject is node.func or not isinstance(subject, ast.Attribute) or not isinstance(node.func, ast.Attribute):
        return ast.unparse(node)
    link = ast.Call(
        func=ast.Attribute(value=subject.value, attr=node.func.attr, ctx=ast.Load()),
        args=node.args,
        keywords=node.keywords,
    )
    return ast.unparse(ast.fix_missing_locations(link))


def is_broad(node: ast.expr, origins: dict[str, str]) -> bool:
    """True when an exception type, or one of a tuple of types, includes failed assertions."""
    types = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(get_last_part(format_name(part, origins)) in BROAD_EXCEPTIONS for part in types)


def is_hiding_context(node: ast.expr, origins: dict[str, str]) -> bool:
    """True for `suppress(Exception)`, `pytest.raises(Exception)` and the like, which hide a failed assertion."""
    if not isinstance(node, ast.Call):
        return False
    name = get_last_part(format_name(node.func, origins))
    if name not in ("suppress", "raises", "assertRaises"):
        return False
    return any(is_broad(argument, origins) for argument in (*node.args, *(keyword.value for keyword in node.keywords)))


def _is_raises(node: ast.expr, origins: dict[str, str]) -> bool:
    return isinstance(node, ast.Call) and get_last_part(format_name(node.func, origins)) in ("raises", "assertRaises")


def _guard_if(test: ast.expr, guard: str, is_negated: bool) -> tuple[str, ...]:
    if isinstance(test, ast.Constant):
        return () if bool(test.value) != is_negated else (NEVER,)
    return (guard,)


def _guard_loop(node: ast.For | ast.AsyncFor) -> tuple[str, ...]:
    """Return no guard for a loop that runs for sure, such as one over a list of literals."""
    if isinstance(node.iter, ast.List | ast.Tuple | ast.Set):
        return () if node.iter.elts else (NEVER,)
    if isinstance(node.iter, ast.Constant) and isinstance(node.iter.value, str):
        return () if node.iter.value else (NEVER,)
    return (f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}",)
