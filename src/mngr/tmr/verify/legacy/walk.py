"""One test, statement by statement, with its helpers and fixtures in place: what it checks, and what must hold for that.

Nothing is run. A name stands for the expression it was given, so that what a check is about does not depend on how the
test is laid out; a loop over a list that stands in the test is as many statements; what is behind a condition carries it.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator

from mngr.tmr.verify.legacy import escapes, values, waiting
from mngr.tmr.verify.legacy.checks import Check
from mngr.tmr.verify.legacy.resolve import TooLong
from mngr.tmr.verify.legacy.returns import call, joined
from mngr.tmr.verify.legacy.setting import Setting, names
from mngr.tmr.verify.legacy.source import Function, Module, Test
from mngr.tmr.verify.legacy.values import UNKNOWN
from mngr.tmr.verify.legacy.views import loop

NEXT, END, FAIL, BREAK = "next", "end", "fail", "break"
_BROAD = frozenset(("Exception", "BaseException", "AssertionError", "object", "pytest.fail.Exception"))


class Walk(Setting):
    """A walk through one test."""

    def test(self, test: Test) -> None:
        """Through a test for each row of its parameters."""
        self.owner = test.owner
        self.conditions = list(test.conditions)
        for row in self.rows(test.node, test.owner):
            self.env = dict(row)
            self.files = {}
            self.cwd_moved = False
            self.surroundings(test.node, test.owner)
            self.arguments(test.node)
            with self.scope():
                self.block(test.node.body)

    def unit(self, node: Function) -> ast.expr | None:
        """Through a function that others use: what it returns."""
        self.env = {}
        with self.scope():
            self.returns.append([])
            self.block(node.body)
            found = joined(self.returns.pop())
            if isinstance(found, ast.Name) and found.id in self.nested:
                inner = self.nested[found.id]
                free = [ast.Name(id=f"given {name}", ctx=ast.Load()) for name in names(inner)]
                found = self.inline(inner, list(free), []) or found
        return found

    @contextlib.contextmanager
    def under(self, condition: str) -> Iterator[None]:
        """Within: what is reached only so."""
        with self.scope():
            self.conditions.append(condition)
            yield

    # Statements.

    def block(self, body: list[ast.stmt]) -> str:
        """How it ends: it goes on, it returns, it fails."""
        for at, statement in enumerate(body):
            self.step(statement)
            flow = self.statement(statement)
            if isinstance(statement, waiting.Loop):
                self._waited(statement, body[at + 1 :])
            if flow != NEXT:
                return flow
        return NEXT

    def _waited(self, node: waiting.Loop, after: list[ast.stmt]) -> None:
        """A loop that is left only when something is so has checked it."""
        found = waiting.way_out(node, after, self.limited > 0)
        kept = list(self.escapes), list(self.actions)
        if isinstance(found, list):
            self.block(found)
        elif found is not None:
            self.at(node)
            for check in self.reader.read(self.resolve(found[0]), found[1]):
                self.check(check)
        self.escapes, self.actions = kept

    def statement(self, node: ast.stmt) -> str:
        match node:
            case ast.Assert(test=test):
                self.at(node)
                if values.known(test) and not values.value(test):
                    return FAIL
                for check in self.reader.read(self.resolve(test)):
                    self.check(check)
            case ast.Expr(value=found):
                self.at(node)
                return self.expression(found)
            case ast.Assign(targets=targets, value=found):
                self.at(node)
                self.assigned(node)
                made = self.resolve(found)
                if isinstance(made, ast.Call):
                    self.actions.append(made)
                    self.moment += 1
                for target in targets:
                    self.bind(target, made)
            case ast.AnnAssign(target=target, value=ast.expr() as found):
                self.bind(target, self.resolve(found))
            case ast.AugAssign(target=target, op=op, value=found):
                self.at(node)
                if not isinstance(target, ast.Name):
                    self.assigned(ast.copy_location(ast.Assign(targets=[target], value=found), node))
                now = ast.BinOp(left=self.resolve(_load(target)), op=op, right=self.resolve(found))
                self.bind(target, now)
            case ast.Return(value=value):
                if self.returns:
                    made = self.resolve(value) if value else ast.Constant(value=None)
                    self.returns[-1].append((tuple(self.conditions), made))
                return END
            case ast.Raise(exc=exc):
                self.at(node)
                raised = values.text(self.resolve(exc)) if exc is not None else ""
                if re.search(r"(?i)skip|xfail", raised.split("(")[0]):
                    self.escape("skip", raised)
                    return END
                return FAIL
            case ast.Break() | ast.Continue():
                return BREAK
            case ast.If():
                return self._if(node)
            case ast.For() | ast.AsyncFor():
                return self._for(node)
            case ast.While():
                return self._while(node)
            case ast.With() | ast.AsyncWith():
                return self._with(node)
            case ast.Try() | ast.TryStar():
                return self._try(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._defined(node)
            case ast.Match(subject=subject, cases=cases):
                for case in cases:
                    with self.under(f"case {values.text(case.pattern)} of {values.text(self.resolve(subject))}"):
                        self.block(case.body)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    full = alias.name if isinstance(node, ast.Import) else f"{node.module or ''}.{alias.name}"
                    self.env[alias.asname or alias.name] = ast.Name(id=full, ctx=ast.Load())
            case ast.Delete(targets=targets):
                self._deleted(node, targets)
        return NEXT

    def _deleted(self, node: ast.stmt, targets: list[ast.expr]) -> None:
        self.at(node)
        for target in targets:
            self.resolve(_load(target))
            if isinstance(target, ast.Subscript):
                self.emptied(target.value, isinstance(target.slice, ast.Slice))

    def _defined(self, node: Function | ast.ClassDef) -> None:
        """A function or a class inside a test; one that has the name of something imported stands in for it."""
        if node.name in self.module.imports:
            self.at(node)
            self.escape("mock", f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}")
        self.env.pop(node.name, None)
        if isinstance(node, ast.ClassDef):
            self.module.classes.setdefault(node.name, node)
        else:
            self.nested[node.name] = node
            self.closures[node.name] = self.env

    def expression(self, found: ast.expr) -> str:
        """A statement that is only an expression."""
        match found:
            case ast.BoolOp(op=op, values=[first, *rest]):
                test = first if isinstance(op, ast.And) else ast.UnaryOp(op=ast.Not(), operand=first)
                inner = rest[0] if len(rest) == 1 else ast.BoolOp(op=op, values=rest)
                return self.statement(_at(ast.If(test=test, body=[_at(ast.Expr(inner), found)], orelse=[]), found))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                ways = [_at(ast.Expr(body), found)], [_at(ast.Expr(orelse), found)]
                return self.statement(_at(ast.If(test=test, body=ways[0], orelse=ways[1]), found))
            case ast.ListComp(elt=elt, generators=[one]) | ast.SetComp(elt=elt, generators=[one]):
                inside: list[ast.stmt] = [_at(ast.Expr(elt), found)]
                for test in one.ifs:
                    inside = [_at(ast.If(test=test, body=inside, orelse=[]), found)]
                return self.statement(_at(ast.For(target=one.target, iter=one.iter, body=inside, orelse=[]), found))
            case ast.GeneratorExp():
                return NEXT  # nobody goes through it
            case ast.Yield(value=value):
                if self.returns:
                    made = self.resolve(value) if value else ast.Constant(value=None)
                    self.returns[-1].append((tuple(self.conditions), made))
                return NEXT
            case ast.Call(func=func) if values.text(func).split(".")[-1] in waiting.FAILS:
                return FAIL
        before = len(self.checks)
        made = self.resolve(found)
        if isinstance(made, ast.Call):
            if len(self.checks) == before:
                self.actions.append(made)
                self.moment += 1
            name = made.func.id if isinstance(made.func, ast.Name) else ""
            if name in escapes.EXITS:
                return END
        return NEXT

    def _if(self, node: ast.If) -> str:
        self.at(node)
        test = self.resolve(node.test)
        found = values.value(test)
        if found is not UNKNOWN:
            return self.block(node.body if found else node.orelse)
        yes, no = f"if {values.text(test)}", f"if not {values.text(test)}"
        before = dict(self.env)
        with self.under(yes):
            then = self.block(node.body)
        after, self.env = self.env, dict(before)
        with self.under(no):
            other = self.block(node.orelse)
        self.env = _merge(test, after, self.env, then, other)
        if FAIL in {then, other} and then != other:
            self.at(node)
            for check in self.reader.read(test, other == FAIL):
                self.check(check)
            return other if then == FAIL else then
        if then == other:
            return then
        if then != NEXT:
            self.conditions.append(no)
        elif other != NEXT:
            self.conditions.append(yes)
        return NEXT

    def _for(self, node: ast.For | ast.AsyncFor) -> str:
        self.at(node)
        over = self.resolve(node.iter)
        items = self.elements(over)
        self.loops += 1
        self.retry(node)
        flow = NEXT
        if items is not None:
            for item in items:
                with self.scope():
                    self.bind(node.target, item)
                    flow = self.block(node.body)
                if flow != NEXT:
                    break
        else:
            ends = any(isinstance(part, ast.Break) for part in ast.walk(node))
            with self.under(loop(over) + " until it breaks" * ends):
                self.bind(node.target, call("each", over))
                self.block(node.body)
        self.loops -= 1
        if flow in {END, FAIL}:
            return flow
        self.block(node.orelse)
        return NEXT

    def _while(self, node: ast.While) -> str:
        test = self.resolve(node.test)
        found = values.value(test)
        if found is not UNKNOWN and not found:
            return NEXT
        self.loops += 1
        self.retry(node)
        with self.scope() if found is not UNKNOWN else self.under(f"while {values.text(test)}"):
            self.block(node.body)
        self.loops -= 1
        return NEXT

    def _with(self, node: ast.With | ast.AsyncWith) -> str:
        self.at(node)
        with self.scope():
            raised: list[Check] = []
            for item in node.items:
                made = self.resolve(item.context_expr)
                self.escape_of(item.context_expr, made)
                if self.swallows(item.context_expr, made):
                    self.conditions.append("unless it fails")
                if self.raising(made) is not None:
                    subject = self.body_as_text(node.body)
                    hollow = "" if self.module.traces(subject) else "nothing of the program is asked"
                    if any(isinstance(part, ast.Raise) for s in node.body for part in ast.walk(s)):
                        hollow = "the test raises it itself"
                    raised += self.raised(made, subject, hollow)
                    made = call("raised", subject)
                if item.optional_vars is not None:
                    self.bind(item.optional_vars, made)
                self._redirected(item, node.body)
            for check in raised:
                self.check(check)
            if raised:
                self.conditions.append("after what raises")
            limits = sum(waiting.is_limit(item.context_expr) for item in node.items)
            self.limited += limits
            flow = self.block(node.body)
            self.limited -= limits
        return NEXT if raised or flow == FAIL else flow

    def _redirected(self, item: ast.withitem, body: list[ast.stmt]) -> None:
        """A stream or list of the test's own into which goes what the block prints, or what it warns of."""
        match item.context_expr, item.optional_vars:
            case ast.Call(func=func, args=[ast.Name(id=name)]), _ if name in self.env:
                if values.text(func).endswith(("redirect_stdout", "redirect_stderr")):
                    self.env[name] = call("gathered", self.env[name], self.body_as_text(body))
            case ast.Call(func=func, keywords=[_, *_]), ast.Name(id=name):
                if values.text(func).endswith("catch_warnings"):
                    self.env[name] = call("gathered", self.env[name], self.body_as_text(body))

    def _try(self, node: ast.Try | ast.TryStar) -> str:
        self.at(node)
        ends = [self._ends(handler.body) for handler in node.handlers]
        silent = [h for h, end in zip(node.handlers, ends, strict=True) if end != FAIL]
        flows_on = any(isinstance(s, ast.Return | ast.Break | ast.Continue) for s in node.finalbody)
        must_raise = silent and (self._ends(node.body) == FAIL or self._ends(node.orelse) == FAIL)
        if must_raise:
            subject = self.body_as_text([s for s in node.body if not waiting.is_failing(s)])
            for handler in silent:
                self.check(self.raises_check(handler.type, None).replace(node=subject))
        with self.scope():
            if silent or flows_on:
                kinds = ", ".join(sorted(values.text(h.type) if h.type else "anything" for h in silent))
                self.conditions.append(f"unless {kinds or 'anything'} is raised")
            flow = self.block(node.body)
            if flow == NEXT:
                flow = self.block(node.orelse)
        for handler in node.handlers:
            with self.scope():
                if not must_raise:
                    kind = values.text(handler.type) if handler.type else "anything"
                    self.conditions.append(f"if {kind} is raised")
                if handler.name:
                    subject = self.body_as_text(node.body)
                    made = call("raised", subject)
                    self.env[handler.name] = ast.Attribute(value=made, attr="value", ctx=ast.Load())
                self.block(handler.body)
        self.block(node.finalbody)
        if silent and flow == NEXT and any(end == END for end in ends) and not must_raise:
            self.conditions.append("unless an exception ended it")
        return NEXT if silent else flow

    def _ends(self, body: list[ast.stmt]) -> str:
        for statement in body:
            if isinstance(statement, ast.Raise) or waiting.is_failing(statement):
                return FAIL
            if isinstance(statement, ast.Return):
                return END
        return NEXT


def _load(node: ast.expr) -> ast.expr:
    return ast.Name(id=node.id, ctx=ast.Load()) if isinstance(node, ast.Name) else node


def _at(made: ast.stmt, where: ast.AST) -> ast.stmt:
    return ast.copy_location(made, where)


def _merge(
    test: ast.expr, yes: dict[str, ast.expr], no: dict[str, ast.expr], then: str, other: str
) -> dict[str, ast.expr]:
    """What names stand for after either of two ways."""
    if then != NEXT:
        return no
    if other != NEXT:
        return yes
    made = {**yes, **no}
    for name in yes.keys() & no.keys():
        if yes[name] is not no[name]:
            made[name] = ast.IfExp(test=test, body=yes[name], orelse=no[name])
    return made


def module_walk(module: Module) -> Walk:
    """Through what is done on import."""
    walk = Walk(module)
    for statement in module.body:
        try:
            walk.statement(statement)
        except TooLong:
            break
    return walk
