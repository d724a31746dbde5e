"""Calls in a test: helpers are walked through, expectations become checks, and what a test writes it cannot learn from."""

from __future__ import annotations

import ast

from mngr.trust import escapes, values
from mngr.trust.checks import Check, peel
from mngr.trust.resolve import Resolver, call
from mngr.trust.source import Function, own_nodes
from mngr.trust.values import UNKNOWN

TYPE_CHECKING = False
_QUIET = frozenset(
    ("timeout", "check", "comment", "capture_output", "text", "universal_newlines", "timeout_seconds")
)
_UNITTEST = {
    "assertEqual": "==", "assertEquals": "==", "assertIs": "==", "assertListEqual": "==", "assertDictEqual": "==",
    "assertSetEqual": "==", "assertTupleEqual": "==", "assertMultiLineEqual": "==", "assertSequenceEqual": "==",
    "assertNotEqual": "!=", "assertIsNot": "!=", "assertIn": "in", "assertNotIn": "not in", "assertGreater": ">",
    "assertGreaterEqual": ">=", "assertLess": "<", "assertLessEqual": "<=",
}  # fmt: skip
_MUTATE = frozenset("append extend insert update setdefault add discard remove pop clear sort reverse".split())
_READS = frozenset(("read_text", "read_bytes"))
_BROAD = frozenset(("Exception", "BaseException", "AssertionError"))
_SWALLOWERS = frozenset(("contextlib.suppress", "suppress"))
_RAISES = frozenset(
    ("pytest.raises", "self.assertRaises", "self.assertRaisesRegex", "pytest.warns", "self.assertWarns")
)


class Calls(Resolver):
    """The part of a walk that knows about calls."""

    def block(self, body: list[ast.stmt]) -> str:
        """The statements of a walk."""
        raise NotImplementedError

    def call(self, node: ast.Call) -> ast.expr:
        """What a call stands for, and what it says on the way."""
        if (done := self._expectation(node)) is not None:
            return done
        if (local := self._local(node)) is not None:
            function, bound, given = local
            if (made := self.inline(function, given, node.keywords, bound)) is not None:
                return made
        func = (
            node.func
            if isinstance(node.func, ast.Name) and node.func.id in self.nested
            else self.resolve(node.func)
        )
        match func:
            case ast.Attribute(
                value=ast.Call(func=ast.Name(id="re.compile"), args=[pattern, *flags]), attr=attr
            ):
                more = [ast.keyword(arg="flags", value=flags[0])] if flags else []
                func, node = (
                    _name(f"re.{attr}"),
                    ast.Call(func=func, args=[pattern, *node.args], keywords=[*node.keywords, *more]),
                )
        if isinstance(func, ast.Lambda):
            return self._lambda(func, node)
        if (method := self._method(func)) is not None:
            made = self.inline(method[1], node.args, node.keywords, True, method[0])
            if made is not None:
                return made
        args = [self.resolve(arg) for arg in node.args]
        keywords = [ast.keyword(arg=k.arg, value=self.resolve(k.value)) for k in node.keywords]
        made = ast.Call(func=func, args=args, keywords=keywords)
        name = values.text(func) if isinstance(func, ast.Name | ast.Attribute) else ""
        self._watch(name, made)
        if (said := self._says(name, made)) is not None:
            return said
        if (known := self._file(name, made)) is not None:
            return known
        match made:
            case ast.Call(func=ast.Attribute(value=base, attr=attr)) if attr in _MUTATE:
                self.changed(base, made)
        return ast.Call(func=func, args=args, keywords=[k for k in keywords if k.arg not in _QUIET])

    # What a call goes around.

    def _watch(self, name: str, made: ast.Call) -> None:
        if found := escapes.of_call(name, made):
            self.escape(*found)
        for keyword in made.keywords:
            if found := escapes.of_keyword(made, keyword):
                self.escape(*found)
        if (command := escapes.command_of(made)) and self.module.traces(made):
            for found in escapes.of_command(command):
                self.escape(*found)
        if name.endswith("chdir"):
            self.cwd_moved = True

    def escape_of(self, node: ast.expr, made: ast.expr) -> None:
        """A context manager that stands in for something."""
        if not isinstance(made, ast.Call) and isinstance(node, ast.Attribute):
            if found := escapes.of_decorator(node, values.text(node)):
                self.escape(*found)

    def assigned(self, node: ast.Assign) -> None:
        """An attribute of something that is not the test's own is set: a stand-in."""
        for target in node.targets:
            shown = values.text(node)[:200]
            name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
            if found := escapes.of_limit(name, node.value):
                self.escape(*found)
            if isinstance(target, ast.Attribute):
                base = self.resolve(target.value)
                root = base
                while isinstance(root, ast.Attribute | ast.Subscript):
                    root = root.value
                if isinstance(root, ast.Name) and root.id in self.module.imports.values():
                    self.escape("mock", shown)
            elif isinstance(target, ast.Subscript):
                base_text = values.text(self.resolve(target.value))
                if base_text.endswith(("sys.modules", "__dict__", "globals()", "__builtins__")):
                    self.escape("mock", shown)
                elif "environ" in base_text:
                    path = values.value(target.slice) == "PATH"
                    self.escape("program-replaced" if path else "environment", shown)

    def retry(self, node: ast.stmt) -> None:
        """A loop that tries something until it is as wished."""
        inside = [part for part in ast.walk(node) if part is not node]
        tests = [part for part in inside if isinstance(part, ast.If | ast.Try)]
        leaves = any(
            isinstance(end, ast.Break | ast.Return | ast.Continue) for part in tests for end in ast.walk(part)
        )
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

    # Helpers.

    def _local(self, node: ast.Call) -> tuple[Function, bool, list[ast.expr]] | None:
        match node.func:
            case ast.Name(id=name):
                if name in self.nested:
                    return self.nested[name], False, node.args
                held = self.env.get(name)
                if isinstance(held, ast.Name) and held.id in self.nested:
                    return self.nested[held.id], False, node.args
                if name not in self.env and name in self.module.functions:
                    return self.module.functions[name], False, node.args
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if self.owner:
                found = self.module.methods(self.owner).get(name)
                return (found, True, node.args) if found else None
        return None

    def _method(self, func: ast.expr) -> tuple[ast.expr, Function] | None:
        match func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id=name)) as base, attr=attr) if (
                name in self.module.classes
            ):
                found = self.module.methods(self.module.classes[name]).get(attr)
                return (base, found) if found else None
        return None

    def inline(
        self,
        function: Function,
        given: list[ast.expr],
        named: list[ast.keyword],
        bound: bool = False,
        instance: ast.expr | None = None,
    ) -> ast.expr | None:
        """Walk through a function of the file in place of its call; None where that cannot be done."""
        if self.depth > 8 or (
            any(isinstance(arg, ast.Starred) for arg in given) and function.args.vararg is None
        ):
            return None
        inner = self._bound(function, [self.resolve(arg) for arg in given], named, bound)
        if instance is not None:
            inner.update(self._attributes(instance))
        if bound:
            inner.update({key: made for key, made in self.env.items() if key.startswith("self.")})
        if instance is not None:
            inner["self"] = instance
        closure = self.closures.get(function.name, {}) if self.nested.get(function.name) is function else {}
        outer, self.env = self.env, {**closure, **inner}
        kept, self.depth = list(self.conditions), self.depth + 1
        self.returns.append([])
        if _waits(function):
            self.conditions.append("if anything goes through it")
        try:
            self.block(function.body)
        finally:
            found, self.depth, self.conditions = self.returns.pop(), self.depth - 1, kept
            if bound and instance is None:
                outer.update({key: made for key, made in self.env.items() if key.startswith("self.")})
            self.env = outer
        return _one(found, len(kept))

    def _bound(
        self, function: Function, given: list[ast.expr], named: list[ast.keyword], bound: bool
    ) -> dict[str, ast.expr]:
        spec = function.args
        names = [arg.arg for arg in [*spec.posonlyargs, *spec.args]][1 if bound else 0 :]
        made = dict(zip(names, given, strict=False))
        if spec.vararg is not None:
            made[spec.vararg.arg] = ast.Tuple(elts=given[len(names) :], ctx=ast.Load())
        made.update({k.arg: self.resolve(k.value) for k in named if k.arg})
        for arg, default in zip(reversed(spec.args), reversed(spec.defaults), strict=False):
            made.setdefault(arg.arg, self.resolve(default))
        for arg, given_default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if given_default is not None:
                made.setdefault(arg.arg, self.resolve(given_default))
        return made

    def _attributes(self, instance: ast.expr) -> dict[str, ast.expr]:
        """What an object of a class of the file was made with."""
        assert isinstance(instance, ast.Call) and isinstance(instance.func, ast.Name)
        start = self.module.methods(self.module.classes[instance.func.id]).get("__init__")
        if start is None or self.depth > 6:
            return {}
        outer, self.env = self.env, self._bound(start, instance.args, instance.keywords, True)
        self.depth += 1
        self.returns.append([])
        try:
            self.block(start.body)
            return {key: made for key, made in self.env.items() if key.startswith("self.")}
        finally:
            self.returns.pop()
            self.depth -= 1
            self.env = outer

    def _lambda(self, made: ast.Lambda, node: ast.Call) -> ast.expr:
        names = [arg.arg for arg in made.args.args]
        outer, self.env = (
            self.env,
            {**self.env, **dict(zip(names, map(self.resolve, node.args), strict=False))},
        )
        found = self.resolve(made.body)
        self.env = outer
        return found

    # What calls check.

    def _expectation(self, node: ast.Call) -> ast.expr | None:
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
        if isinstance(root.func, ast.Name) and root.func.id in {*self.module.functions, *self.module.classes, *self.nested}:
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
        hollow = "" if self.module.traces(base) else "it looks at nothing that the program made"
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

    def _says(self, name: str, made: ast.Call) -> ast.expr | None:
        """A call that is a check by itself: those of unittest, of subprocess, and whatever is named like one."""
        last = name.rsplit(".", 1)[-1]
        args = made.args
        if name in _RAISES and len(args) < 2:
            return None
        if last in _UNITTEST and len(args) >= 2:
            op = ast.parse(f"a {_UNITTEST[last]} b", mode="eval").body.ops[0]  # type: ignore[attr-defined]
            for check in self._compared(args[0], op, args[1]):
                self.check(check)
        elif last in {"assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone"} and args:
            if last in {"assertTrue", "assertFalse"}:
                found = self.reader.read(args[0], last == "assertTrue")
            else:
                found = self._compared(
                    args[0], ast.Is() if last == "assertIsNone" else ast.IsNot(), ast.Constant(None)
                )
            for check in found:
                self.check(check)
        elif last in {"assertRegex", "assertNotRegex"} and len(args) >= 2:
            for check in self.reader.read(call("re.search", args[1], args[0]), last == "assertRegex"):
                self.check(check)
        elif last == "assertAlmostEqual" and len(args) >= 2:
            places = next((values.value(k.value) for k in made.keywords if k.arg == "places"), 7)
            delta = next((values.value(k.value) for k in made.keywords if k.arg == "delta"), None)
            slack = (
                delta
                if isinstance(delta, int | float)
                else 10.0 ** -(places if isinstance(places, int) else 0)
            )
            for check in self._compared(args[0], ast.Eq(), args[1]):
                self.check(check.replace(kind="near", option=f"0.0 {slack}"))
        elif last == "assertIsInstance" and len(args) >= 2:
            for check in self.reader.read(call("isinstance", *args[:2])):
                self.check(check)
        elif last == "assertCountEqual" and len(args) >= 2:
            for check in self._compared(call("sorted", args[0]), ast.Eq(), args[1]):
                self.check(check)
        elif name in _RAISES and len(args) >= 2 and name != "self.assertRaisesRegex":
            rest = call("called", *args[1:])
            self.check(self.raises_check(args[0], None).replace(node=rest))
        else:
            return self._checking(name, last, made)
        return made

    def _checking(self, name: str, last: str, made: ast.Call) -> ast.expr | None:
        checked = any(k.arg == "check" and values.value(k.value) is True for k in made.keywords)
        if checked or name in {"subprocess.check_call", "subprocess.check_output"}:
            func = (
                ast.Name(id="subprocess.run", ctx=ast.Load())
                if name.startswith("subprocess.check")
                else made.func
            )
            plain = ast.Call(
                func=func, args=made.args, keywords=[k for k in made.keywords if k.arg not in _QUIET]
            )
            code = ast.Attribute(value=plain, attr="exit_code", ctx=ast.Load())
            for check in self._compared(code, ast.Eq(), ast.Constant(value=0)):
                self.check(check)
            return None
        if last in {"check_returncode", "raise_for_status"} and isinstance(made.func, ast.Attribute):
            code = ast.Attribute(value=made.func.value, attr="exit_code", ctx=ast.Load())
            for check in self._compared(code, ast.Eq(), ast.Constant(value=0)):
                self.check(check)
        elif last.startswith(("assert", "expect_", "verify", "ensure", "should")) and self.module.traces(
            made
        ):
            subject = (
                made.func.value
                if isinstance(made.func, ast.Attribute)
                else made.args[0]
                if made.args
                else made
            )
            if (
                isinstance(subject, ast.Name)
                and made.args
                and subject.id in {"self", *self.module.imports.values()}
            ):
                subject = made.args[0]
            rest = ast.Tuple(elts=[*made.args, *(k.value for k in made.keywords)], ctx=ast.Load())
            self.check(Check(kind="call", node=subject, expected=rest, option=last))
        return None

    def raising(self, made: ast.expr) -> Check | None:
        """The check of `with pytest.raises(…)`, without what it is about."""
        if not (isinstance(made, ast.Call) and isinstance(made.func, ast.Name | ast.Attribute)):
            return None
        if values.text(made.func) not in _RAISES:
            return None
        match = next((k.value for k in made.keywords if k.arg in {"match", "expected_regex"}), None)
        if "Regex" in values.text(made.func) and len(made.args) > 1:
            match = made.args[1]
        return self.raises_check(made.args[0] if made.args else None, match)

    def raises_check(self, kind: ast.expr | None, match: ast.expr | None) -> Check:
        """The check that something is raised."""
        kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind] if kind else []
        option = " ".join(sorted(values.text(self.resolve(item)) for item in kinds)) or "BaseException"
        return Check(kind="raises", node=ast.Constant(value=None), expected=match, option=option)

    def body_as_text(self, body: list[ast.stmt]) -> ast.expr:
        """What a block does, as one expression: its calls."""
        kept, escaped, files = list(self.checks), list(self.escapes), dict(self.files)
        made: list[ast.expr] = []
        for statement in body:
            for part in ast.iter_child_nodes(statement):
                if isinstance(part, ast.expr) and not isinstance(part, ast.Name):
                    made.append(self.resolve(part))
        self.checks, self.escapes, self.files = kept, escaped, files
        return made[0] if len(made) == 1 else ast.Tuple(elts=made, ctx=ast.Load())

    # Files that the test wrote.

    def _file(self, name: str, made: ast.Call) -> ast.expr | None:
        """The content of a file, where the test wrote it and nothing else has touched it."""
        match made:
            case ast.Call(
                func=ast.Attribute(value=place, attr="write_text" | "write_bytes"), args=[content, *_]
            ):
                self.files[values.text(place)] = content
                return None
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="open"), args=[place, *_]), attr="write")
            ):
                self.files[values.text(place)] = made.args[0] if made.args else ast.Constant(value="")
                return None
            case ast.Call(func=ast.Attribute(value=place, attr="touch" | "mkdir")):
                self.files[values.text(place)] = ast.Constant(value="")
                return None
            case ast.Call(func=ast.Attribute(value=place, attr="exists" | "is_file" | "is_dir")):
                return ast.Constant(value=True) if values.text(place) in self.files else None
            case ast.Call(func=ast.Attribute(value=place, attr=attr)) if attr in _READS:
                return self.files.get(values.text(place))
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="open"), args=[place, *_]), attr="read")
            ):
                return self.files.get(values.text(place))
        if self.files and self.module.traces(made) and not name.endswith(("mkdir", "touch", "chmod")):
            roots = {part.id for part in ast.walk(made) if isinstance(part, ast.Name)}
            for place in list(self.files):
                inside = {p.id for p in ast.walk(ast.parse(place)) if isinstance(p, ast.Name)}
                if self.cwd_moved or inside & roots:
                    del self.files[place]
        return None

    # Parameters.

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
                    self.escape(
                        "skip" if "skip" in name else name.rsplit(".", 1)[-1], f"a row: {values.text(row)}"
                    )
        return row.args[0] if len(row.args) == 1 else ast.Tuple(elts=row.args, ctx=ast.Load())


def _name(name: str) -> ast.expr:
    return ast.Name(id=name, ctx=ast.Load())


def _waits(function: Function) -> bool:
    """Whether calling it runs nothing yet: a generator that is no context."""
    if any("contextmanager" in values.text(decorator) for decorator in function.decorator_list):
        return False
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in own_nodes(function))


def _one(found: list[tuple[tuple[str, ...], ast.expr]], base: int) -> ast.expr:
    """What a function returns, as one expression."""
    if not found:
        return ast.Constant(value=None)
    made = found[-1][1]
    for conditions, other in reversed(found[:-1]):
        if values.text(other) != values.text(made):
            why = " ".join(conditions[base:]) or "…"
            made = ast.IfExp(test=call("each", ast.Constant(value=why)), body=other, orelse=made)
    return made


__all__ = ["UNKNOWN", "Calls"]
