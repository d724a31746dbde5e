"""Calls that check something: `expect`, those of unittest and subprocess, and whatever is named like one."""

from __future__ import annotations

import ast

from mngr.tmr.verify.legacy import values
from mngr.tmr.verify.legacy.checks import Check
from mngr.tmr.verify.legacy.returns import call
from mngr.tmr.verify.legacy.views import peel
from mngr.tmr.verify.legacy.watching import Watching

QUIET = frozenset(("timeout", "check", "comment", "capture_output", "text", "universal_newlines", "timeout_seconds"))
_UNITTEST = {
    "assertEqual": "==", "assertEquals": "==", "assertIs": "==", "assertListEqual": "==", "assertDictEqual": "==",
    "assertSetEqual": "==", "assertTupleEqual": "==", "assertMultiLineEqual": "==", "assertSequenceEqual": "==",
    "assertNotEqual": "!=", "assertIsNot": "!=", "assertIn": "in", "assertNotIn": "not in", "assertGreater": ">",
    "assertGreaterEqual": ">=", "assertLess": "<", "assertLessEqual": "<=",
}  # fmt: skip
# What raises or warns is told by its kind; some are given a pattern for the message after it.
_RAISES = {
    "pytest.raises": 1, "pytest.warns": 1, "self.assertRaises": 1, "self.assertWarns": 1,
    "self.assertRaisesRegex": 2, "self.assertWarnsRegex": 2,
}  # fmt: skip


# Of libraries for tables and arrays: the relative and the absolute tolerance that they have by themselves.
_WHOLES: dict[str, tuple[float, float] | None] = {
    "assert_allclose": (1e-7, 0.0), "assert_almost_equal": (0.0, 1.5e-7), "assert_array_almost_equal": (0.0, 1.5e-6),
    "assert_equal": None, "assert_array_equal": None, "assert_string_equal": None,
    "assert_frame_equal": None, "assert_series_equal": None, "assert_index_equal": None,
}  # fmt: skip


def _within(last: str, check: Check, made: ast.Call) -> Check:
    """A comparison of arrays, with the tolerance that it is given."""
    slack = _WHOLES[last]
    given = {k.arg: values.value(k.value) for k in made.keywords}
    if slack is None and not {"rtol", "atol"} & given.keys():
        return check
    plain = slack or (1e-5, 1e-8)
    sizes = [given.get(name, default) for name, default in zip(("rtol", "atol"), plain, strict=True)]
    if isinstance(places := given.get("decimal"), int):
        sizes[1] = 1.5 * 10.0**-places
    known = [float(size) if isinstance(size, int | float) else 1e9 for size in sizes]
    return check.replace(kind="near", option=f"{known[0]} {known[1]}")


class Said(Watching):
    """The part of a walk that turns calls into checks."""

    def expectation(self, node: ast.Call) -> ast.expr | None:
        """A step of `expect(…).to_…().to_…()`: the checks of those before it, then its own."""
        if not (isinstance(node.func, ast.Attribute) and node.func.attr.startswith(("to_", "not_to_"))):
            return None
        inner = node.func.value
        root: ast.expr = inner
        while isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute):
            root = root.func.value
        if isinstance(root, ast.Name) and root.id in self.env:
            root = self.env[root.id]
        if not (isinstance(root, ast.Call) and values.text(root.func).split(".")[-1] == "expect"):
            return None
        if isinstance(root.func, ast.Name) and root.func.id in {
            *self.module.functions,
            *self.module.classes,
            *self.nested,
        }:
            return ast.Constant(value=None)  # an `expect` of the file's own: it says nothing that we know
        whole = self.resolve(inner)
        if not (isinstance(whole, ast.Call) and whole.args):
            return whole
        args = [self.resolve(arg) for arg in [*node.args, *(k.value for k in node.keywords)]]
        self.at(node)
        for check in self._expected(node.func.attr, whole.args[0], args):
            self.check(check)
        return whole

    def _expected(self, name: str, subject: ast.expr, args: list[ast.expr]) -> list[Check]:
        code = self.part(subject, "exit_code")
        subject = self.files.get(values.text(subject), subject)
        if name == "to_succeed":
            return self._compared(code, ast.Eq(), ast.Constant(value=0))
        if name == "to_fail" and not args:
            return self._compared(code, ast.NotEq(), ast.Constant(value=0))
        if name in {"to_fail", "to_have_exit_code"} and args:
            return self._compared(code, ast.Eq(), args[0])
        if name in {"to_contain", "not_to_contain"}:
            op = ast.In() if name == "to_contain" else ast.NotIn()
            starred = [arg.value for arg in args if isinstance(arg, ast.Starred)]
            given = [item for inner in starred for item in self.elements(inner) or [inner]]
            given += [arg for arg in args if not isinstance(arg, ast.Starred)]
            return [check for arg in given for check in self._compared(arg, op, subject)]
        base, views = peel(subject)
        hollow = "" if self.module.traces(base) else "it checks nothing that the program produced"
        made = Check(kind="call", node=base, views=views, expected=args[0] if args else None, empty=hollow)
        if name == "to_equal":
            return self._compared(subject, ast.Eq(), args[0]) if args else []
        if name == "to_be_empty":
            return [made.replace(kind="empty")]
        if name == "to_match":
            return [made.replace(kind="search", option="re search")]
        if name == "not_to_match":
            return [made.replace(kind="nomatch", option="re search")]
        if name == "to_match_lines":
            return [made.replace(kind="full", option="lines")]
        if name == "to_match_tree":
            return [made.replace(kind="full", option="tree")]
        return [made.replace(option=name)]

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> list[Check]:
        return self.reader.read(ast.Compare(left=left, ops=[op], comparators=[right]))

    def says(self, name: str, made: ast.Call) -> ast.expr | None:
        """A call that is a check by itself: those of unittest, of subprocess, and whatever is named like one."""
        last = name.rsplit(".", 1)[-1]
        args = made.args
        if name in _RAISES and len(args) <= _RAISES[name]:
            return None
        if last in _UNITTEST and len(args) >= 2:
            op = ast.parse(f"a {_UNITTEST[last]} b", mode="eval").body.ops[0]  # type: ignore[attr-defined]
            for check in self._compared(args[0], op, args[1]):
                self.check(check)
        elif last in {"assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone"} and args:
            if last in {"assertTrue", "assertFalse"}:
                found = self.reader.read(args[0], last == "assertTrue")
            else:
                found = self._compared(args[0], ast.Is() if last == "assertIsNone" else ast.IsNot(), ast.Constant(None))
            for check in found:
                self.check(check)
        elif last in {"assertRegex", "assertNotRegex"} and len(args) >= 2:
            for check in self.reader.read(call("re.search", args[1], args[0]), last == "assertRegex"):
                self.check(check)
        elif last == "assertAlmostEqual" and len(args) >= 2:
            places = next((values.value(k.value) for k in made.keywords if k.arg == "places"), 7)
            delta = next((values.value(k.value) for k in made.keywords if k.arg == "delta"), None)
            slack = delta if isinstance(delta, int | float) else 10.0 ** -(places if isinstance(places, int) else 0)
            for check in self._compared(args[0], ast.Eq(), args[1]):
                self.check(check.replace(kind="near", option=f"0.0 {slack}"))
        elif last == "assertIsInstance" and len(args) >= 2:
            for check in self.reader.read(call("isinstance", *args[:2])):
                self.check(check)
        elif last == "assertCountEqual" and len(args) >= 2:
            for check in self._compared(call("sorted", args[0]), ast.Eq(), args[1]):
                self.check(check)
        elif (
            last in _WHOLES
            and len(args) >= 2
            and name.split(".", maxsplit=1)[0] in {"numpy", "pandas", "polars", "xarray"}
        ):
            for check in self._compared(args[0], ast.Eq(), args[1]):
                self.check(_within(last, check, made))
        elif name in _RAISES:
            for check in self.raised(made, self._run(made, _RAISES[name])):
                self.check(check)
        else:
            return self._checking(name, last, made)
        return made

    def _checking(self, name: str, last: str, made: ast.Call) -> ast.expr | None:
        checked = any(k.arg == "check" and values.value(k.value) is True for k in made.keywords)
        if checked or name in {"subprocess.check_call", "subprocess.check_output"}:
            func = ast.Name(id="subprocess.run", ctx=ast.Load()) if name.startswith("subprocess.check") else made.func
            plain = ast.Call(func=func, args=made.args, keywords=[k for k in made.keywords if k.arg not in QUIET])
            code = ast.Attribute(value=plain, attr="exit_code", ctx=ast.Load())
            for check in self._compared(code, ast.Eq(), ast.Constant(value=0)):
                self.check(check)
            return None
        if last in {"check_returncode", "raise_for_status"} and isinstance(made.func, ast.Attribute):
            code = ast.Attribute(value=made.func.value, attr="exit_code", ctx=ast.Load())
            for check in self._compared(code, ast.Eq(), ast.Constant(value=0)):
                self.check(check)
        elif last.startswith("assert") or (
            last.startswith(("expect_", "verify", "ensure", "should")) and self.module.traces(made)
        ):
            subject = made.func.value if isinstance(made.func, ast.Attribute) else made.args[0] if made.args else made
            if isinstance(subject, ast.Name) and made.args and subject.id in {"self", *self.module.imports.values()}:
                subject = made.args[0]
            rest = ast.Tuple(elts=[*made.args, *(k.value for k in made.keywords)], ctx=ast.Load())
            self.check(Check(kind="call", node=subject, expected=rest, option=last))
        return None

    def _run(self, made: ast.Call, at: int) -> ast.expr:
        """The call of what was handed over to be called."""
        func, given = made.args[at], made.args[at + 1 :]
        if isinstance(func, ast.Lambda) and not func.args.args:
            return func.body
        named = [k for k in made.keywords if k.arg not in {"match", "expected_regex"}]
        return ast.Call(func=func, args=given, keywords=named)

    def raised(self, made: ast.expr, subject: ast.expr, hollow: str = "") -> list[Check]:
        """The checks that something raises: which exception, and with which words."""
        kind = self.raising(made)
        if kind is None:
            return []
        found = [kind.replace(node=subject, empty=hollow, expected=None)]
        if kind.expected is not None:
            told = ast.Attribute(value=call("raised", subject), attr="value", ctx=ast.Load())
            found.append(Check(kind="search", node=told, expected=kind.expected, option="re search", empty=hollow))
        return found

    def raising(self, made: ast.expr) -> Check | None:
        """The check of `with pytest.raises(…)`, without what it is about."""
        if not (isinstance(made, ast.Call) and isinstance(made.func, ast.Name | ast.Attribute)):
            return None
        if values.text(made.func) not in _RAISES:
            return None
        match = next((k.value for k in made.keywords if k.arg in {"match", "expected_regex"}), None)
        if _RAISES[values.text(made.func)] == 2 and len(made.args) > 1:
            match = made.args[1]
        return self.raises_check(made.args[0] if made.args else None, match)

    def raises_check(self, kind: ast.expr | None, match: ast.expr | None) -> Check:
        """The check that something is raised."""
        kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind] if kind else []
        option = " ".join(sorted(values.text(self.resolve(item)) for item in kinds)) or "BaseException"
        return Check(kind="raises", node=ast.Constant(value=None), expected=match, option=option)
