"""Work of a test that runs at the same time: threads, pools, coroutines that are waited for together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mngr.tmr.verify.legacy import reach, values
from mngr.tmr.verify.legacy.source import Function, Module

_MAKES = frozenset(("Thread", "Process", "Timer"))
_POOLS = frozenset(("ThreadPoolExecutor", "ProcessPoolExecutor", "Pool", "ThreadPool"))
_LOCKS = frozenset(("Lock", "RLock"))
_WAITS = frozenset(("gather", "as_completed", "wait", "TaskGroup", "create_task_group", "open_nursery"))
_LOOPS = frozenset(("asyncio", "anyio", "trio"))
_FILLS = frozenset(("append", "extend", "add", "update", "put", "appendleft"))
_TOLD = re.compile(
    r"concurren|parallel|thread|\brac(?:e|es|ed|y|ing)\b|atomic|\block|simultan|\bat once\b|at the same time|interleav|"
    r"contention|\btogether\b",
    re.I,
)
_WHAT = "actions that ran at the same time now run one after the other"


class Together:
    """What of a test, and of the functions and classes of the file that it uses, runs at the same time."""

    def __init__(self, module: Module, node: Function) -> None:
        known: dict[str, ast.AST] = {**module.functions, **module.classes}
        names = reach.used([node], module) & known.keys()
        self.parts = [part for one in (node, *(known[name] for name in sorted(names))) for part in ast.walk(one)]
        self.calls = [part for part in self.parts if isinstance(part, ast.Call)]
        self.told = f"{node.name.replace('_', ' ')}\n{ast.get_docstring(node) or ''}"
        self.locked = any(map(self._is_locked, self.parts))
        threads = self._threads()
        self.works = threads > 1 or self._pool()
        self.waits = any(map(_waits, self.calls))
        self.beside = threads == 1  # one, and the test

    def _threads(self) -> int:
        """How many are started before one is waited for, as far as can be told: none, one beside the test, or more."""
        made = [call for call in self.calls if _last(call) in _MAKES]
        if not any(_starts(block) for block in _blocks(self.parts)):
            return 0
        rows = [part for part in self.parts if isinstance(part, ast.ListComp | ast.GeneratorExp | ast.For)]
        many = {id(part) for row in rows if not _is_one(_over(row)) for part in ast.walk(row)}
        return 2 if any(id(call) in many for call in made) else len(made)

    def _pool(self) -> bool:
        pools = [call for call in self.calls if _last(call) in _POOLS]
        if not any(_size(call) != 1 for call in pools):
            return False
        taken = {id(part) for call in self.calls if _last(call) in {"result", "get"} for part in _base(call)}
        given = [call for call in self.calls if _last(call) in {"submit", "apply_async"}]
        mapped = any(re.fullmatch(r"map\w*|starmap\w*|imap\w*", _last(call)) for call in self.calls)
        return mapped or any(id(call) not in taken for call in given)

    def _is_locked(self, node: ast.AST) -> bool:
        """Whether a lock of the test's own is held around more than what is the test's own."""
        if not isinstance(node, ast.With | ast.AsyncWith):
            return False
        held = {values.text(item.context_expr) for item in node.items} & self._locks()
        inside = [part for s in node.body for part in ast.walk(s) if isinstance(part, ast.Call)]
        return bool(held) and any(_last(call) not in _FILLS for call in inside)

    def _locks(self) -> set[str]:
        found = set()
        for part in self.parts:
            if isinstance(part, ast.Assign):
                pairs = [(target, part.value) for target in part.targets]
                for target, made in pairs:
                    if isinstance(target, ast.Tuple) and isinstance(made, ast.Tuple):
                        pairs += zip(target.elts, made.elts, strict=False)
                found |= {values.text(t) for t, made in pairs if _last(made) in _LOCKS}
        return found


def lost(old: Together, new: Together) -> str:
    """That nothing runs at the same time any more, where this is what the old test was about."""
    kept = (new.works or new.waits) and not new.locked
    if old.locked or kept:
        return ""
    if old.works:
        return _WHAT
    about = (old.waits or old.beside) and _TOLD.search(old.told)
    return _WHAT if about and (new.locked or not new.beside) else ""


def _waits(call: ast.Call) -> bool:
    name = values.text(call.func)
    if _last(call) == "gather" and len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
        return False
    return _last(call) in _WAITS and (name.split(".")[0] in _LOOPS or name == _last(call) != "wait")


def _last(node: ast.AST) -> str:
    return values.text(node.func).rsplit(".", 1)[-1] if isinstance(node, ast.Call) else ""


def _base(call: ast.Call) -> list[ast.AST]:
    return [call.func.value] if isinstance(call.func, ast.Attribute) else []


def _size(call: ast.Call) -> object:
    given = [*call.args, *(k.value for k in call.keywords if k.arg in {"max_workers", "processes"})]
    return values.value(given[0]) if given else None


def _over(row: ast.ListComp | ast.GeneratorExp | ast.For) -> ast.expr:
    return row.iter if isinstance(row, ast.For) else row.generators[0].iter


def _is_one(over: ast.expr) -> bool:
    """Whether a row has one item or none."""
    match over:
        case ast.Call(func=ast.Name(id="range"), args=[many]):
            return values.value(many) in (0, 1)
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return len(elts) < 2
    return False


def _blocks(parts: list[ast.AST]) -> Iterator[list[ast.stmt]]:
    for part in parts:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(part, name, None)
            if isinstance(block, list):
                yield block


def _starts(block: list[ast.stmt]) -> bool:
    """Whether something is started here that is not waited for right away."""
    for at, statement in enumerate(block):
        rows = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(rows, ast.ListComp):
            rows = rows.elt
        if not (isinstance(rows, ast.Call) and _last(rows) == "start"):
            continue
        joined = f"{values.text(rows.func).removesuffix('.start')}.join("
        if not (block[at + 1 :] and values.text(block[at + 1]).startswith(joined)):
            return True
    return False
