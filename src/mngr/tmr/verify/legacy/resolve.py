"""What expressions of a test stand for, once the names in them are replaced by what they were given."""

from __future__ import annotations

import ast

from mngr.tmr.verify.legacy import values, warned
from mngr.tmr.verify.legacy.checks import Check, Reader
from mngr.tmr.verify.legacy.returns import call
from mngr.tmr.verify.legacy.source import Function, Module
from mngr.tmr.verify.legacy.values import UNKNOWN

_MOST = 60  # times a loop is walked through
_STEPS = 3_000
_COMPARES = frozenset(("__eq__", "__ne__", "__contains__", "__lt__", "__gt__", "__le__", "__ge__", "__bool__"))


_HOLDERS = frozenset("SimpleNamespace Mock MagicMock AsyncMock CompletedProcess Namespace dict".split())


class TooLong(Exception):
    """There is more in this test than anybody would read."""


class Escape:
    """A way around a check, or one that makes it easier to pass."""

    def __init__(self, rule: str, what: str, line: int, amount: float | None = None, looped: bool = False) -> None:
        self.rule = rule
        self.what = what
        self.line = line
        self.amount = amount
        self.looped = looped


class Resolver:
    """Names, and what they stand for at this point of a walk."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.env: dict[str, ast.expr] = {}
        self.nested: dict[str, Function] = {}
        self.closures: dict[str, dict[str, ast.expr]] = {}  # what names stood for where a function was defined
        self.owner: ast.ClassDef | None = None
        self.conditions: list[str] = []
        self.returns: list[list[tuple[tuple[str, ...], ast.expr]]] = []
        self.files: dict[str, ast.expr] = {}
        self.cwd_moved = False
        self.checks: list[Check] = []
        self.escapes: list[Escape] = []
        self.actions: list[ast.Call] = []
        self.asked: list[frozenset[str]] = []  # of each call, what of the world outside is in it
        self.written: list[tuple[ast.expr, ast.expr | None, int]] = []  # files: where, with what, in which line
        self.depth = 0
        self.loops = 0
        self.limited = 0  # contexts around that fail when the time is over
        self.line = 0
        self.steps = 0
        self.moment = 0
        odd = frozenset(
            name
            for name, owner in module.classes.items()
            if _COMPARES & set(module.methods(owner)) and not _is_plain_eq(module.methods(owner).get("__eq__"))
        )
        self.reader = Reader(module.traces, odd, frozenset(module.functions))

    def at(self, node: ast.AST) -> None:
        """Where in the file the walk is."""
        self.line = getattr(node, "lineno", self.line)

    def step(self, node: ast.AST) -> None:
        """Count, so that a walk ends."""
        self.steps += 1
        if self.steps > _STEPS or not self.module.spend(1):
            raise TooLong

    def check(self, check: Check) -> None:
        """Something is checked here."""
        conditions = tuple(dict.fromkeys([*self.conditions, *check.conditions]))
        code = self.module.lines[self.line - 1].strip() if 0 < self.line <= len(self.module.lines) else ""
        self.checks.append(check.replace(conditions=conditions, line=self.line, moment=self.moment, code=code))

    def escape(self, rule: str, what: str, amount: float | None = None) -> None:
        """Something here goes around a check."""
        if rule == warned.PASSED and warned.of_others(what, self.module.packages()):
            return
        self.escapes.append(Escape(rule, what, self.line, amount, self.loops > 0))

    def bind(self, target: ast.expr, made: ast.expr) -> None:
        """Give a name to an expression."""
        match target:
            case ast.Name(id=name):
                self.nested.pop(name, None)
                big = values.is_big(made) and not isinstance(made, ast.List | ast.Tuple | ast.Dict | ast.Set)
                self.env[name] = ast.Name(id=name, ctx=ast.Load()) if big else made
            case ast.Attribute():
                self.env[values.text(self._place(target))] = made
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                given = self.elements(made)
                for index, part in enumerate(elts):
                    if isinstance(part, ast.Starred):
                        self.bind(part.value, made)
                    elif given is not None and index < len(given):
                        self.bind(part, given[index])
                    else:
                        self.bind(part, _item(made, index))
            case ast.Subscript(value=value, slice=index):
                base = self.resolve(value)
                if isinstance(index, ast.Slice):
                    self.emptied(value, self.elements(made) == [])
                self.changed(base, made)
                place = ast.Subscript(value=base, slice=self.resolve(index), ctx=ast.Load())
                self.env[values.text(place)] = made

    def part(self, base: ast.expr, name: str) -> ast.expr:
        """An attribute, or what the test has put in its place."""
        made = ast.Attribute(value=base, attr=name, ctx=ast.Load())
        return self.env.get(values.text(made), made)

    def changed(self, base: ast.expr, how: ast.expr) -> None:
        """The test itself changes something that it was given: from here on it is not what the program made."""
        if isinstance(base, ast.List | ast.Set | ast.Dict) or values.text(base).startswith("gathered("):
            self._gathered(base, how)
            return
        if not isinstance(base, ast.Call | ast.Subscript) or not self.module.traces(base):
            return
        func = base.func if isinstance(base, ast.Call) else None
        last = values.text(func).rsplit(".", 1)[-1] if func is not None else ""
        if last[:1].isupper() or last == "cls":
            return  # an object of the program: it is used, as it should be
        before = values.text(base)
        for name, found in list(self.env.items()):
            if values.text(found) == before:
                self.env[name] = call("changed", found, how)

    def emptied(self, base: ast.expr, all_of_it: bool) -> None:
        """Something is taken out of a list or table that stands in the file: cases that are not tried."""
        if not isinstance(base, ast.Name):
            return
        if base.id not in self.env and base.id in self.module.constants:
            self.escape("examples", f"{base.id} is emptied")
        elif all_of_it and isinstance(self.env.get(base.id), ast.List | ast.Dict | ast.Set):
            self.env[base.id] = ast.List(elts=[], ctx=ast.Load())

    def _place(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return ast.Attribute(value=self.resolve(node.value), attr=node.attr, ctx=ast.Load())
        return node

    def _gathered(self, base: ast.expr, how: ast.expr) -> None:
        """Something of the test's own is filled: what is in it depends on what led there."""
        led: list[ast.expr] = []
        for condition in self.conditions:
            try:
                led.append(ast.parse(condition.partition(" ")[2], mode="eval").body)
            except (SyntaxError, ValueError):
                led.append(ast.Constant(value=condition))
        if not led and values.known(how):
            return
        for name, found in list(self.env.items()):
            if found is base:
                self.env[name] = call("gathered", base, how, *led)

    def elements(self, node: ast.expr) -> list[ast.expr] | None:
        """The items of something that stands in the test; None where only a run would tell."""
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            if any(isinstance(part, ast.Starred) for part in node.elts):
                spread = [self.elements(p.value) if isinstance(p, ast.Starred) else [p] for p in node.elts]
                if any(part is None for part in spread):
                    return None
                return [item for part in spread if part for item in part]
            return list(node.elts) if len(node.elts) <= _MOST else list(node.elts)[:_MOST]
        if isinstance(node, ast.Dict) and None not in node.keys:
            return [key for key in node.keys if key is not None]
        match node:
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner]):
                items = self.elements(inner)
                made = [ast.Tuple(elts=[ast.Constant(i), item], ctx=ast.Load()) for i, item in enumerate(items or [])]
                return None if items is None else [*made]
            case ast.Call(func=ast.Name(id="zip"), args=args):
                columns = [self.elements(arg) for arg in args]
                if any(column is None for column in columns):
                    return None
                return [ast.Tuple(elts=list(r), ctx=ast.Load()) for r in zip(*(c or [] for c in columns), strict=False)]
            case ast.Call(func=ast.Attribute(value=ast.Dict(keys=keys, values=given), attr="items")):
                return [ast.Tuple(elts=[k, v], ctx=ast.Load()) for k, v in zip(keys, given, strict=True) if k]
            case ast.Call(func=ast.Attribute(value=ast.Dict(values=given), attr="values")):
                return list(given)
        found = values.value(node)
        if isinstance(found, list | tuple | set | frozenset | str | dict):
            return [values.constant(item) for item in list(found)[:_MOST]]
        return None

    # Expressions.

    def resolve(self, node: ast.expr) -> ast.expr:
        """The expression with what its names stand for, its helpers walked through."""
        match node:
            case ast.Constant():
                return node
            case ast.Lambda():
                own = {arg.arg for arg in node.args.args}
                held = {name: made for name, made in self.env.items() if name not in own}
                return ast.Lambda(args=node.args, body=Fill(held).visit(values.copied(node.body)))
            case ast.Name():
                return self._name(node)
            case ast.NamedExpr(target=target, value=found):
                made = self.resolve(found)
                self.bind(target, made)
                return made
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                asked = self.resolve(test)
                if values.known(asked):
                    return self.resolve(body if values.value(asked) else orelse)
                return ast.IfExp(test=asked, body=self.resolve(body), orelse=self.resolve(orelse))
            case ast.Starred(value=inner):
                return ast.Starred(value=self.resolve(inner), ctx=ast.Load())
            case ast.JoinedStr(values=parts):
                filled = ast.JoinedStr(values=[self._rebuilt(part) for part in parts])
                if values.known(filled):
                    return values.constant(values.value(filled))
                given = [part.value if isinstance(part, ast.FormattedValue) else part for part in filled.values]
                return call("text", *given)  # unlike an f-string it can always be written down
        made = self._rebuilt(node)
        if isinstance(made, ast.Subscript):
            return self.env.get(values.text(made)) or self._item_of(made)
        return made

    def call(self, node: ast.Call) -> ast.expr:
        """What a call stands for."""
        raise NotImplementedError

    def held(self, base: ast.Call, name: str) -> ast.expr | None:
        """An attribute that an object was made with, where that stands in the test."""
        if isinstance(base.func, ast.Name) and base.func.id.rsplit(".", 1)[-1] in _HOLDERS:
            return next((keyword.value for keyword in base.keywords if keyword.arg == name), None)
        return None

    def _rebuilt(self, node: ast.expr) -> ast.expr:
        fields: dict[str, object] = {}
        for name, found in ast.iter_fields(node):
            if isinstance(found, ast.expr):
                fields[name] = self.resolve(found)
            elif isinstance(found, list):
                fields[name] = [self.resolve(item) if isinstance(item, ast.expr) else item for item in found]
            else:
                fields[name] = found
        return type(node)(**fields)  # type: ignore[arg-type]

    def _item_of(self, node: ast.Subscript) -> ast.expr:
        """An item of a list or table that stands in the test."""
        index = values.value(node.slice) if not isinstance(node.slice, ast.Slice) else UNKNOWN
        if index is UNKNOWN:
            return node
        if isinstance(node.value, ast.Dict):
            for key, found in zip(node.value.keys, node.value.values, strict=True):
                if key is not None and values.value(key) == index:
                    return found
        rows = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else []
        return rows[index] if isinstance(index, int) and -len(rows) <= index < len(rows) else node

    def _name(self, node: ast.Name) -> ast.expr:
        found = self.env.get(node.id)
        if found is None and node.id in self.module.constants and node.id not in self.nested:
            given = self.module.constants[node.id]
            self.module.constants.pop(node.id)  # one that is defined by itself
            try:
                outer, self.env = self.env, {}
                found = self.resolve(given)
            finally:
                self.env = outer
                self.module.constants[node.id] = given
        if found is None:
            return self.module.qualified(node)
        return found

    def _attribute(self, node: ast.Attribute) -> ast.expr:
        base = self.resolve(node.value)
        made = ast.Attribute(value=base, attr=node.attr, ctx=ast.Load())
        key = values.text(made)
        if key in self.env:
            return self.env[key]
        if isinstance(base, ast.Call) and (held := self.held(base, node.attr)) is not None:
            return held
        if isinstance(base, ast.Name) and base.id in self.module.imports.values() and not base.id.startswith("self"):
            return ast.Name(id=f"{base.id}.{node.attr}", ctx=ast.Load())
        if isinstance(base, ast.Name) and base.id.split(".")[0] in {"pytest", "unittest", "os", "sys", "re"}:
            return ast.Name(id=f"{base.id}.{node.attr}", ctx=ast.Load())
        if node.attr in {"returncode", "exit_code", "exitcode"}:
            return ast.Attribute(value=base, attr="exit_code", ctx=ast.Load())
        return made

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> ast.expr:
        outer = dict(self.env)
        one = node.generators[0]
        over = self.resolve(one.iter)
        items = self.elements(over)
        if items is not None and len(node.generators) == 1 and not isinstance(node, ast.DictComp):
            made: list[ast.expr] = []
            told = True  # or only a run would tell which of them are taken
            for item in items:
                self.bind(one.target, item)
                kept = [values.value(self.resolve(test)) for test in one.ifs]
                told = told and UNKNOWN not in kept
                if told and all(kept):
                    made.append(self.resolve(node.elt))
            self.env = dict(outer)
            if told:
                return ast.List(elts=made, ctx=ast.Load())
        ifs: list[ast.expr] = []
        for part in node.generators:
            self.bind(part.target, call("each", self.resolve(part.iter)))
            ifs += [self.resolve(test) for test in part.ifs]
        elt = node.value if isinstance(node, ast.DictComp) else node.elt
        found = call("listof", self.resolve(elt), *ifs)
        self.env = outer
        return found


def _item(made: ast.expr, index: int) -> ast.expr:
    """One of several that something was taken apart into."""
    return ast.Subscript(value=made, slice=ast.Constant(value=index), ctx=ast.Load())


class Fill(ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, held: dict[str, ast.expr]) -> None:
        self.held = held

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.held.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def _is_plain_eq(node: Function | None) -> bool:
    """Whether a comparison of its own compares: it says `==` of something."""
    return node is not None and any(isinstance(part, ast.Compare) for part in ast.walk(node))
