"""Calls in a test: helpers are walked through, expectations become checks, and what a test writes it cannot learn from."""

from __future__ import annotations

import ast
import functools

from mngr.tmr.verify.legacy import driven, places, values, written
from mngr.tmr.verify.legacy.asking import is_program
from mngr.tmr.verify.legacy.resolve import TooLong
from mngr.tmr.verify.legacy.returns import call, joined
from mngr.tmr.verify.legacy.said import QUIET, Said
from mngr.tmr.verify.legacy.source import Function
from mngr.tmr.verify.legacy.views import UNKEPT

_MUTATE = frozenset("append extend insert update setdefault add discard remove pop clear sort reverse".split())
_EMPTIES = frozenset(("clear", "pop", "popitem", "remove", "discard"))
_COPIES = frozenset(("shutil.copy", "shutil.copyfile", "shutil.copy2", "shutil.move", "os.replace", "os.rename"))
_STREAMS = frozenset(("io.StringIO()", "io.BytesIO()"))
_KEEPS = frozenset(("capture_output", "stdout", "stderr", None))  # by which the streams of a process are kept
_READS = frozenset(("read_text", "read_bytes"))


class Calls(Said):
    """The part of a walk that knows about calls."""

    def block(self, body: list[ast.stmt]) -> str:
        """The statements of a walk."""
        raise NotImplementedError

    def call(self, node: ast.Call) -> ast.expr:
        """What a call stands for, and what it says on the way."""
        self.step(node)
        if (done := self.expectation(node)) is not None:
            return done
        if (local := self._local(node)) is not None:
            function, bound, given = local
            held = self._held(function, node)
            if (made := self.inline(function, given, node.keywords, bound, held=held)) is not None:
                return call("endless", made) if driven.has_no_end(function) else made
        func = node.func if isinstance(node.func, ast.Name) and node.func.id in self.nested else self.resolve(node.func)
        match func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="re.compile"), args=[pattern, *flags]), attr=attr):
                more = [ast.keyword(arg="flags", value=flags[0])] if flags else []
                func, node = (
                    _name(f"re.{attr}"),
                    ast.Call(func=func, args=[pattern, *node.args], keywords=[*node.keywords, *more]),
                )
        if isinstance(func, ast.Lambda):
            return self._lambda(func, node)
        if isinstance(func, ast.Name) and func.id == "getattr" and len(node.args) == 2:
            name = values.value(self.resolve(node.args[1]))
            if isinstance(name, str) and name.isidentifier():
                return self.resolve(ast.Attribute(value=node.args[0], attr=name, ctx=ast.Load()))
        if (method := self._method(func)) is not None:
            held = self._held(method[1], node)
            made = self.inline(method[1], node.args, node.keywords, True, method[0], held)
            if made is not None:
                return made
        if values.text(func) == "request.getfixturevalue" and node.args:
            return self._by_name(values.value(self.resolve(node.args[0])))
        args = [self.resolve(arg) for arg in node.args]
        keywords = [ast.keyword(arg=k.arg, value=self.resolve(k.value)) for k in node.keywords]
        made = ast.Call(func=func, args=args, keywords=keywords)
        if not self.module.spend(len(values.text(made)) // 200):
            raise TooLong
        name = values.text(func) if isinstance(func, ast.Name | ast.Attribute) else ""
        if (through := self._indirect(func, name, args, node)) is not None:
            return through
        self.watch(name, made)
        self._filled(node, made)
        self.written += [(place, content, self.line) for place, content in written.of_call(name, made)]
        if (said := self.says(name, made)) is not None:
            return said
        if (known := self._file(name, made)) is not None:
            return known
        match made:
            case ast.Call(func=ast.Attribute(value=base, attr=attr)) if attr in _MUTATE:
                if attr in _EMPTIES and isinstance(node.func, ast.Attribute):
                    self.emptied(node.func.value, attr == "clear")
                self.changed(base, made)
        plain = ast.Call(func=func, args=args, keywords=[k for k in keywords if k.arg not in QUIET])
        if name == "subprocess.run" and not _KEEPS & {k.arg for k in keywords}:
            plain.__dict__[UNKEPT] = True
        same = places.plain(name, plain)
        return same if same is not None else plain

    def fixture(self, name: str) -> ast.expr:
        """What a fixture of the file hands out."""
        raise NotImplementedError

    def _by_name(self, name: object) -> ast.expr:
        """A fixture that a test asks for by its name while it runs."""
        if isinstance(name, str) and name in self.module.fixtures:
            return self.fixture(name)
        return _name(name if isinstance(name, str) and name.isidentifier() else "some_fixture")

    def _filled(self, node: ast.Call, made: ast.Call) -> None:
        """What the program is given to put something into, by way of a callback or as a stream, is its doing from then on."""
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        names = {name for arg in given for name in self._fills(arg)}
        if not names or not any(map(is_program, self.module.outside(made))):
            return
        for name in names:
            self.env[name] = call("gathered", self.env[name], made)

    def _fills(self, node: ast.expr) -> set[str]:
        """The test's own empty lists, tables and streams that a callback, or whoever has it, can fill."""
        if isinstance(node, ast.Name) and node.id in self.env:
            return {node.id} if values.text(self.env[node.id]) in _STREAMS else set()
        body: ast.AST | None = node if isinstance(node, ast.Lambda | ast.Attribute) else None
        if isinstance(node, ast.Name):
            body = self.nested.get(node.id)
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in self.nested:
                lazy = driven.kind(self.nested[name], self.nested) == "generator"
                body = self.nested[name] if lazy else None
        found = set()
        for part in ast.walk(body) if body is not None else ():
            match part:
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in _MUTATE:
                    found.add(name)
                case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                    found.add(name)
        return {name for name in found if name in self.env and _is_empty(self.env[name])}

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

    def _held(self, function: Function, node: ast.Call) -> str:
        """The condition under which a call of a function runs it at all."""
        known = {**self.module.functions, **self.nested}
        kind = driven.kind(function, known)
        return driven.HELD[kind] if kind and id(node) not in self.module.driven(kind) else ""

    def _indirect(self, func: ast.expr, name: str, args: list[ast.expr], node: ast.Call) -> ast.expr | None:
        """A function of the file that is run by way of another."""
        if name.rsplit(".", 1)[-1] == "map" and len(args) == 2 and id(node) in self.module.driven("generator"):
            return self._mapped(args[0], args[1])
        found = driven.indirect(func, name, args)
        function = (self.nested.get(found[0]) or self.module.functions.get(found[0])) if found else None
        if function is None or found is None:
            return None
        lost = name.endswith(("to_thread", "run_sync")) and id(node) not in self.module.driven("coroutine")
        return self.inline(function, found[1], node.keywords, held=driven.HELD["coroutine"] if lost else "")

    def _mapped(self, func: ast.expr, over: ast.expr) -> ast.expr | None:
        """A function of the file that is run for each item."""
        known = {**self.module.functions, **self.nested}
        items = self.elements(over)
        if not isinstance(func, ast.Name) or func.id not in known or items is None:
            return None
        made = [self.inline(known[func.id], [item], []) or ast.Constant(value=None) for item in items]
        return ast.List(elts=[*made], ctx=ast.Load())

    def inline(
        self,
        function: Function,
        given: list[ast.expr],
        named: list[ast.keyword],
        bound: bool = False,
        instance: ast.expr | None = None,
        held: str = "",
    ) -> ast.expr | None:
        """Walk through a function of the file in place of its call; None where that cannot be done."""
        if self.depth > 5 or (any(isinstance(arg, ast.Starred) for arg in given) and function.args.vararg is None):
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
        if held:
            self.conditions.append(held)
        try:
            self.block(function.body)
        finally:
            found, self.depth, self.conditions = self.returns.pop(), self.depth - 1, kept
            if bound and instance is None:
                outer.update({key: made for key, made in self.env.items() if key.startswith("self.")})
            self.env = outer
        made = joined(found, len(kept)) or ast.Constant(value=None)
        return None if values.is_big(made) else made

    def _bound(
        self, function: Function, given: list[ast.expr], named: list[ast.keyword], bound: bool
    ) -> dict[str, ast.expr]:
        spec = function.args
        names = [arg.arg for arg in [*spec.posonlyargs, *spec.args]][1 if bound else 0 :]
        made = dict(zip(names, given, strict=False))
        if spec.vararg is not None:
            made[spec.vararg.arg] = ast.Tuple(elts=given[len(names) :], ctx=ast.Load())
        given_by_name = {k.arg: self.resolve(k.value) for k in named if k.arg}
        made.update(given_by_name)
        if spec.kwarg is not None:
            taken = {*names, *(arg.arg for arg in spec.kwonlyargs)}
            more = [k for k in named if k.arg not in taken]
            keys = [ast.Constant(value=k.arg) if k.arg else None for k in more]
            rest = [given_by_name[k.arg] if k.arg else self.resolve(k.value) for k in more]
            made[spec.kwarg.arg] = ast.Dict(keys=[*keys], values=rest)
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
            case ast.Call(func=ast.Attribute(value=place, attr="write_text" | "write_bytes"), args=[content, *_]):
                self.files[values.text(place)] = content
                return None
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="open"), args=[place, *_]), attr="write")):
                self.files[values.text(place)] = made.args[0] if made.args else ast.Constant(value="")
                return None
            case ast.Call(func=ast.Attribute(value=place, attr="touch" | "mkdir")):
                self.files[values.text(place)] = ast.Constant(value="")
                return None
            case ast.Call(func=ast.Attribute(value=place, attr="exists" | "is_file" | "is_dir")):
                return ast.Constant(value=True) if values.text(place) in self.files else None
            case ast.Call(func=ast.Attribute(value=place, attr=attr)) if attr in _READS:
                return self.files.get(values.text(place))
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="open"), args=[place, *_]), attr="read")):
                return self.files.get(values.text(place))
            case ast.Call(func=ast.Name(id=copy), args=[source, place, *_]) if copy in _COPIES:
                self.files[values.text(place)] = self.files.get(values.text(source), _read(source))
                return None
            case ast.Call(func=ast.Name(id="json.dump"), args=[content, ast.Call(args=[place, *_]), *_]):
                self.files[values.text(place)] = content
                return None
            case ast.Call(func=ast.Name(id="filecmp.cmp"), args=[one, two, *_]):
                sides = [self.files.get(values.text(side), _read(side)) for side in (one, two)]
                return ast.Compare(left=sides[0], ops=[ast.Eq()], comparators=[sides[1]])
        if self.files and self.module.traces(made) and not name.endswith(("mkdir", "touch", "chmod", "expect")):
            roots = values.names(made)
            for written in list(self.files):
                own = not self.module.traces(self.files[written])  # what the program said stays what it said
                if own and (self.cwd_moved or not roots.isdisjoint(_names(written))):
                    del self.files[written]
        return None


def _is_empty(node: ast.expr) -> bool:
    """Whether it is a list or table with nothing in it yet, or one that is filled already by the program."""
    plain = isinstance(node, ast.List | ast.Dict | ast.Call) and values.text(node) in {
        "[]",
        "{}",
        "set()",
        "list()",
        "dict()",
    }
    return plain or values.text(node).startswith("gathered(")


@functools.lru_cache(maxsize=4096)
def _names(place: str) -> frozenset[str]:
    """The names in an expression."""
    return frozenset(part.id for part in ast.walk(ast.parse(place)) if isinstance(part, ast.Name))


def _read(place: ast.expr) -> ast.expr:
    return ast.Call(func=ast.Attribute(value=place, attr="read_text", ctx=ast.Load()), args=[], keywords=[])


def _name(name: str) -> ast.expr:
    return ast.Name(id=name, ctx=ast.Load())
