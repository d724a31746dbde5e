"""Lists the faults that each place of a syntax tree could have."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from mngr.base.model import Struct

SWAPPED_COMPARISONS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "in": "not in",
    "is": "is not",
}
SWAPPED_COMPARISONS |= {"not in": "in", "is not": "is"}
SWAPPED_ARITHMETIC = {"+": "-", "-": "+", "*": "//", "/": "*", "//": "*", "%": "*", "**": "*"}
SWAPPED_ARITHMETIC |= {"<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&"}
_COMPARISON_OPERATOR = re.compile(r"<=|>=|==|!=|<|>|\bnot\s+in\b|\bin\b|\bis\s+not\b|\bis\b")
_ARITHMETIC_OPERATOR = re.compile(r"\*\*|//|<<|>>|[-+*/%&|^]")
_LOGGERS = {"log", "logger", "logging", "_log", "_logger", "LOG", "LOGGER", "warnings"}
_TYPES = {"TypeVar", "NewType", "ParamSpec", "TypeVarTuple", "cast", "overload"}
_MINOR_ARGUMENTS = {
    "encoding",
    "errors",
    "newline",
    "dest",
    "type",
    "stacklevel",
}  # a fault in these arguments changes nothing or only crashes
_ACTIONS = {"store_true": "store_false", "store_false": "store_true"}
_LONG = 200  # characters; a longer text is only emptied
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_HINTS = ("annotation", "returns", "type_params", "type_comment")


class Fault(Struct):
    """A faulty edit of a text, from `start` to `end`."""

    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str
    function: str  # the function that contains it, or empty


def list_faults(text: str, lines: set[int]) -> list[Fault]:
    """Return all known faults of these lines, in the order of the text."""
    if "\r" in text.replace("\r\n", "") or text.startswith("\ufeff"):
        return []
    try:
        tree = ast.parse(text)
        found = _FaultFinder(text, lines).find_in_module(tree)
    except (SyntaxError, ValueError, RecursionError):
        return []
    unique = {(fault.start, fault.end, fault.new): fault for fault in found}
    return [unique[place] for place in sorted(unique)]


class _FaultFinder:
    def __init__(self, text: str, lines: set[int]) -> None:
        self._text, self._lines = text, lines
        self._rows = text.split("\n")
        self._starts = [0]
        for row in self._rows:
            self._starts.append(self._starts[-1] + len(row) + 1)
        self._function: list[str] = []
        self._loops: list[str] = [""]  # the loop that `break` and `continue` belong to
        self._found: list[Fault] = []

    def find_in_module(self, tree: ast.Module) -> list[Fault]:
        for node in tree.body:
            self._visit_statement(node)
        return self._found

    # Places

    def _get_offset(self, line: int, column: int) -> int:
        row = self._rows[line - 1]
        if not row.isascii():
            column = len(row.encode()[:column].decode())
        return self._starts[line - 1] + column

    def _get_span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._get_offset(node.lineno, node.col_offset), self._get_offset(node.end_lineno, node.end_col_offset)

    def _add_fault(self, kind: str, start: int, end: int, new: str) -> None:
        line = bisect_right(self._starts, start)
        old, function = self._text[start:end], ".".join(self._function)
        self._found.append(Fault(line=line, kind=kind, start=start, end=end, old=old, new=new, function=function))

    def _add_replacement(self, kind: str, node: ast.expr | ast.stmt, new: str) -> None:
        self._add_fault(kind, *self._get_span(node), new)

    def _add_swapped_operator(
        self, kind: str, left: ast.expr, right: ast.expr, what: re.Pattern[str], table: dict[str, str]
    ) -> None:
        """Add the fault that the operator between two operands is another one."""
        start, end = self._get_span(left)[1], self._get_span(right)[0]
        found = what.search(self._text, start, end)
        if found is None or "#" in self._text[start:end]:
            return
        new = table.get(" ".join(found[0].split()))
        if new is not None:
            self._add_fault(kind, *found.span(), new)

    # Statements

    def _visit_statement(self, node: ast.stmt) -> None:
        if _is_untestable(node):
            return
        if _is_type_checking_block(node):
            assert isinstance(node, ast.If)
            self._visit_block(node.orelse)
            return
        if self._is_run(node):
            self._add_statement_faults(node)
            self._visit_own_expressions(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if not isinstance(node, ast.ClassDef):
                self._function.append(node.name)
            self._loops.append("")
            self._visit_block(node.body)
            self._loops.pop()
            if not isinstance(node, ast.ClassDef):
                self._function.pop()
            return
        loop = {ast.For: "for", ast.AsyncFor: "for", ast.While: "while"}.get(type(node))
        for name in _BLOCKS:
            self._loops.append(loop if loop and name == "body" else self._loops[-1])
            self._visit_block(getattr(node, name, []))
            self._loops.pop()

    def _visit_block(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, ast.stmt):
                self._visit_statement(node)
            elif isinstance(node, ast.ExceptHandler):
                self._visit_block(node.body)
            elif isinstance(node, ast.match_case):
                if node.guard is not None and node.guard.lineno in self._lines:
                    self._add_condition_faults(node.guard)
                    self._visit_expression(node.guard)
                self._visit_block(node.body)

    def _is_run(self, node: ast.stmt) -> bool:
        """True when one of its own lines was run. The lines of a block in it are not its own."""
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        body = getattr(node, "body", None) or getattr(node, "cases", None)
        last = node.end_lineno or node.lineno
        if body:
            inner = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
            last = max(node.lineno, inner.lineno - 1)
        return not self._lines.isdisjoint(range(first, last + 1))

    def _add_statement_faults(self, node: ast.stmt) -> None:
        """Add the faults of the statement as a whole."""
        match node:
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.Delete():
                self._add_replacement("call", node, "pass")
            case ast.Raise():
                self._add_replacement("raise", node, "pass")
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                self._add_replacement("result", node, "return None")
            case ast.If(test=test):
                self._add_condition_faults(test)
            case ast.While(test=test) if not isinstance(test, ast.Constant):
                self._add_replacement("condition", test, "False")
            case ast.AugAssign(target=target, value=value) if not _is_sequence(value):
                self._add_swapped_operator("arithmetic", target, value, _ARITHMETIC_OPERATOR, SWAPPED_ARITHMETIC)
            case ast.Continue():
                self._add_replacement("loop", node, "break")
            case ast.Break() if self._loops[-1] == "for":  # in others it might never end
                self._add_replacement("loop", node, "continue")

    def _visit_own_expressions(self, node: ast.stmt) -> None:
        """Add the faults in a statement's expressions, without its blocks and type hints."""
        for name, value in ast.iter_fields(node):
            if (name in _BLOCKS and isinstance(value, list)) or name in _HINTS:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.arguments):
                    self._visit_defaults(child)
                elif isinstance(child, ast.withitem):
                    self._visit_expression(child.context_expr)
                elif isinstance(child, ast.keyword):
                    self._visit_expression(child.value)
                elif isinstance(child, ast.expr):
                    self._visit_expression(child)

    def _visit_defaults(self, arguments: ast.arguments) -> None:
        for value in (*arguments.defaults, *arguments.kw_defaults):
            if value is not None:
                self._visit_expression(value, kind="default")

    # Expressions

    def _add_condition_faults(self, test: ast.expr) -> None:
        if isinstance(test, ast.Constant) or _is_main_check(test):
            return
        self._add_replacement("condition", test, "True")
        self._add_replacement("condition", test, "False")

    def _visit_expression(self, node: ast.expr, kind: str = "") -> None:
        """Add the faults of an expression and of its parts. `kind` replaces the kind of a constant's fault."""
        match node:
            case ast.JoinedStr():
                start, end = self._get_span(node)
                written = self._text[start:end]
                for new in ('""', f'({written} + "X")', f'("X" + {written})'):
                    self._add_fault(kind or "text", start, end, new)
                return  # before Python 3.12 the places of its parts are unknown
            case ast.Constant():
                self._add_wrong_constants(node, kind)
            case ast.IfExp(test=test):
                self._add_condition_faults(test)
            case ast.Slice(lower=lower, upper=upper):
                for bound in (lower, upper):
                    if bound is not None and not isinstance(bound, ast.Constant):
                        self._add_replacement("slice", bound, "")
            case ast.Call():
                self._visit_call(node)
                return
            case _:
                self._add_operator_faults(node)
        self._visit_parts(node)

    def _add_operator_faults(self, node: ast.expr) -> None:
        """Add the faults of an operator."""
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others) if not _is_main_check(node):
                for one, _, other in zip([left, *others], ops, others, strict=False):
                    self._add_swapped_operator("comparison", one, other, _COMPARISON_OPERATOR, SWAPPED_COMPARISONS)
            case ast.BoolOp(op=op, values=values):
                words = {"and": "or"} if isinstance(op, ast.And) else {"or": "and"}
                for one, other in pairwise(values):
                    self._add_swapped_operator("logic", one, other, re.compile(r"\b(and|or)\b"), words)
            case ast.UnaryOp(op=ast.Not()):
                start, end = self._get_span(node)
                self._add_fault("logic", start, end, self._text[start + 3 : end].lstrip())
            case ast.BinOp(left=left, right=right) if not _is_sequence(left) and not _is_sequence(right):
                self._add_swapped_operator("arithmetic", left, right, _ARITHMETIC_OPERATOR, SWAPPED_ARITHMETIC)

    def _visit_parts(self, node: ast.AST) -> None:
        if isinstance(node, ast.Compare) and _is_main_check(node):
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.comprehension):
                self._visit_expression(child.iter)
                for test in child.ifs:
                    self._add_condition_faults(test)
                    self._visit_expression(test)
            elif isinstance(child, ast.arguments):
                self._visit_defaults(child)
            elif isinstance(child, ast.expr):
                self._visit_expression(child)

    def _visit_call(self, node: ast.Call) -> None:
        if _is_logging(node):
            return
        self._visit_expression(node.func)
        if _get_last_name(node.func) in _TYPES:
            return
        for value in node.args:
            self._visit_expression(value)
        places: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        places.sort(key=self._get_span)
        for keyword in node.keywords:
            if keyword.arg is None:
                self._visit_expression(keyword.value)
            elif keyword.arg not in _MINOR_ARGUMENTS:
                self._add_missing_argument(keyword, places)
                self._visit_keyword_value(keyword.arg, keyword.value)

    def _visit_keyword_value(self, name: str, value: ast.expr) -> None:
        if name == "action" and isinstance(value, ast.Constant):
            if value.value in _ACTIONS:
                self._add_replacement("default", value, f'"{_ACTIONS[value.value]}"')
        else:
            self._visit_expression(value, kind="default" if name == "default" else "")

    def _add_missing_argument(self, keyword: ast.keyword, places: list[ast.expr | ast.keyword]) -> None:
        """Add the fault that a call lacks one of its arguments."""
        start, end = self._get_span(keyword)
        at = places.index(keyword)
        if at + 1 < len(places):
            end = self._get_span(places[at + 1])[0]
        elif at:
            start = self._get_span(places[at - 1])[1]
        if "#" not in self._text[start:end]:
            self._add_fault("argument", start, end, "")

    def _add_wrong_constants(self, node: ast.Constant, kind: str) -> None:
        for new in _iter_wrong_values(node.value):
            self._add_replacement(kind or _get_constant_kind(node.value), node, new)


def _iter_wrong_values(value: object) -> Iterator[str]:
    """Yield wrong values for a constant."""
    if isinstance(value, bool):
        yield repr(not value)
    elif isinstance(value, int):
        yield repr(value + 1)
        if value > 0:
            yield repr(value - 1)
    elif isinstance(value, float):
        yield repr(value + 1)
    elif isinstance(value, (str, bytes)):
        more = "X" if isinstance(value, str) else b"X"
        if len(value) > 1:
            yield repr(value[:0])
        if len(value) <= _LONG:
            yield repr(value + more)  # type: ignore[operator]


def _get_constant_kind(value: object) -> str:
    if isinstance(value, bool):
        return "logic"
    return "number" if isinstance(value, (int, float)) else "text"


def _is_untestable(node: ast.stmt) -> bool:
    """True when no fault in it could be visible to a test."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal() | ast.Pass() | ast.Assert():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call() as call):
            return _is_logging(call)
        case (
            ast.Assign(targets=[ast.Name(id=name), *_], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            if name == "TYPE_CHECKING" or (name.startswith("__") and name.endswith("__")):
                return True
            return isinstance(value, ast.Call) and (_is_logging(value) or _get_last_name(value.func) in _TYPES)
        case _:
            return type(node).__name__ == "TypeAlias"


def _is_type_checking_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and _get_last_name(node.test) == "TYPE_CHECKING"


def _is_main_check(node: ast.expr) -> bool:
    """`__name__ == "__main__"`"""
    return isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "__name__"


def _is_sequence(node: ast.expr) -> bool:
    """True when the value is a text or a list, so that arithmetic with it only concatenates."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, bytes)) or node.value is None
    if isinstance(node, ast.BinOp):
        return _is_sequence(node.left) or _is_sequence(node.right)
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp))


def _is_logging(call: ast.Call) -> bool:
    node: ast.expr = call.func
    while isinstance(node, (ast.Attribute, ast.Call)):
        if isinstance(node, ast.Attribute) and node.attr in _LOGGERS:
            return True
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return isinstance(node, ast.Name) and node.id in _LOGGERS


def _get_last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name, or an empty text for another expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
