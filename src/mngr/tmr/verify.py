"""Make a receipt: what the edit's text says, k runs in a clean room, the proof of each fix, and in full also audit and faults."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os

from mngr import git
from mngr.errors import MngrError
from mngr.model import Record
from mngr.tmr import proof
from mngr.tmr.collect import Test
from mngr.tmr.edits import changes, commits_of
from mngr.tmr.receipt import Receipt, judge
from mngr.tmr.rooms import Broken
from mngr.tmr.testing import TIMEOUT, TestRun, command, run_test
from mngr.trust.finding import Finding
from mngr.trust.policy import DEFAULT, Policy, offences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mngr.host import Host
    from mngr.tmr.edits import Edit
    from mngr.tmr.rooms import Room, Rooms
    from mngr.tmr.shelf import Shelf
    from mngr.trust.policy import Change

LEVELS = ("quick", "full")
_RULES = 1  # goes up when the same run may now be judged otherwise
_AUDIT = ("nop", "help")


class Claim(Record):
    """What somebody says: at this commit, made on that base, this test passes."""

    test: Test
    commit: str
    base: str
    witnesses: list[Test] = []
    result: dict[str, Any] = {}  # the agent's own words, for the kinds of its commits
    is_shared: bool = False  # it is about a cause that several tests share
    red: TestRun | None = None  # how the test ended on the base, if that was seen


class How(Record):
    """How claims are checked."""

    pytest: list[str]
    args: list[str] = []
    k: int = 3
    timeout: float = TIMEOUT
    program: str | None = None
    level: str = "quick"
    seed: int = 0
    policy: Policy = DEFAULT
    faults: int = 20


def verify(
    rooms: Rooms,
    claim: Claim,
    how: How,
    *,
    source: str | None = None,
    shelf: Shelf | None = None,
    keep: str | None = None,
    done: Callable[[Test, TestRun], None] | None = None,
) -> Receipt:
    """Check a claim about a commit of `source`; what cannot be run is `unverified`. `keep` is a directory for artifacts."""
    blank = Receipt(
        test=claim.test.id, verdict="unverified", reason="", commit=claim.commit, base=claim.base, level=how.level,
        command=command(how.pytest, how.args, claim.test.id), k=how.k, seed=how.seed, again=_again(claim, how),
    )  # fmt: skip
    try:
        with contextlib.ExitStack() as stack:
            return _verify(
                rooms, claim, how, blank, _Bench(stack, rooms, claim, how, source, shelf, keep, done)
            )
    except Broken as error:
        return blank.replace(reason=f"the clean room broke twice: {error.message}")
    except MngrError as error:
        return blank.replace(reason=f"it could not be run: {error.message}")


def _verify(rooms: Rooms, claim: Claim, how: How, blank: Receipt, bench: _Bench) -> Receipt:
    local, repo = rooms.fleet.context.local, bench.repo
    edits = commits_of(local, repo, claim.base, claim.commit, claim.result)
    whole = changes(local, repo, claim.base, claim.commit)
    policy = _policy(edits, whole, claim, how)
    guard = weakenings(whole)
    own, others = bench.all()
    audited = _audit(bench, claim, how, whole) if how.level == "full" and _passed(own) else None
    proofs, found = _proofs(local, claim, how, bench, edits, whole, own)
    found += [finding for run in (*own, *others) for finding in run.findings]
    mutation = None
    if audited is not None:
        found += audited[1]
    if how.level == "full" and _passed(own):
        from mngr.tmr.mutation import mutate

        mutated = mutate(
            rooms, how.pytest, claim.test, base=claim.base, commit=claim.commit, source=bench.source, n=how.faults, seed=how.seed,
            args=how.args, timeout=how.timeout, shelf=bench.shelf, room=bench.room,
        )  # fmt: skip
        mutation = mutated.to_dict()
        found += mutated.findings()
    receipt = judge(
        blank.replace(commit=bench.commit, tree=bench.tree),
        own,
        others,
        [*policy, *guard, *found],
        how.program,
    )
    receipt = receipt.replace(
        policy=_rows(policy), guard=_rows(guard), findings=_rows(found), proofs=[one.to_dict() for one in proofs],
        mutation=mutation, audit=audited[0] if audited else None,
    )  # fmt: skip
    return receipt.replace(hashes=_hashes(receipt, own, bench.keep))


# What the text of the edit says


def _policy(edits: Sequence[Edit], whole: Sequence[Change], claim: Claim, how: How) -> list[Finding]:
    """Each commit by the rules for its kind; what it says about the whole it says once."""
    if not edits:
        return offences(list(whole), "", how.policy, shared=claim.is_shared)
    found: dict[tuple[str, str, int], Finding] = {}
    for edit in edits:
        for one in offences(edit.changes, edit.kind, how.policy, shared=claim.is_shared):
            found.setdefault((one.rule, one.path, one.line), one)
    return list(found.values())


def weakenings(whole: Sequence[Change]) -> list[Finding]:
    """What an edit takes from the tests: file by file, from the first state to the last."""
    from mngr.tmr.cluster import is_of_tests
    from mngr.trust.guard import Contract, weakened

    found: list[Finding] = []
    for change in whole:
        if not is_of_tests(change.path) or not change.path.endswith(".py"):
            continue
        contract = Contract(docs=_contract(change))
        found += weakened(change.old, change.new, change.path, contract=contract)
    return found


def _contract(change: Change) -> dict[str, str]:
    """What the tests of a file promised before the edit: their docstrings, and the blocks that they cite."""
    import ast

    from mngr.tutorial.citations import parse_tests

    if change.old is None:
        return {}
    found: dict[str, str] = {}
    try:
        tree = ast.parse(change.old)
    except (SyntaxError, ValueError):
        return {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = ast.get_docstring(node) or ""
    for citation in parse_tests(change.old.encode("utf-8", "replace"), change.path).citations:
        name = citation.test.rpartition("::")[2]
        found[name] = f"{found.get(name, '')}\n{citation.text}".strip()
    return found


# What is run


class _Bench:
    """Runs in one room at the claimed commit, which is made when the first is needed; what a shelf knows is not run."""

    def __init__(
        self, stack: contextlib.ExitStack, rooms: Rooms, claim: Claim, how: How, source: str | None, shelf: Shelf | None,
        keep: str | None, done: Callable[[Test, TestRun], None] | None,
    ) -> None:  # fmt: skip
        self.source, self.repo, self.shelf, self.keep = source, source or rooms.repo, shelf, keep
        self._stack, self._rooms, self._claim, self._how, self._done = stack, rooms, claim, how, done
        names = git.must(
            rooms.fleet.context.local,
            self.repo,
            "rev-parse",
            f"{claim.commit}^{{commit}}",
            f"{claim.commit}^{{tree}}",
        )
        self.commit, self.tree = names.split("\n")
        self._room: Room | None = None
        self._breaks = 0

    def all(self) -> tuple[list[TestRun], list[TestRun]]:
        """The test k times and each witness once, in an order that the seed decides."""
        import random

        claim, how = self._claim, self._how
        order = [claim.test] * how.k + [one for one in claim.witnesses if one.id != claim.test.id]
        random.Random(how.seed).shuffle(order)
        own: list[TestRun] = []
        others: list[TestRun] = []
        for number, one in enumerate(order):
            run = self.run(one, number, resolve=number == 0)
            (own if one.id == claim.test.id else others).append(run)
        return own, others

    def run(
        self, test: Test, number: int, *, files: dict[str, str | None] | None = None, resolve: bool = False
    ) -> TestRun:
        """One run; `files` are other than the commit has them."""
        how, seed = self._how, self._how.seed + number
        key = [
            _RULES,
            self.tree,
            command(how.pytest, how.args, test.id),
            seed,
            files,
            resolve,
            self._rooms.about,
        ]
        known = self.shelf.get(key) if self.shelf is not None else None
        if isinstance(known, dict):
            run = TestRun.from_dict(known)
        else:
            run = self._fresh(test, seed, files, resolve)
            if self.shelf is not None:
                self.shelf.put(key, run.to_dict())
        if self._done is not None:
            self._done(test, run)
        return run

    def _fresh(self, test: Test, seed: int, files: dict[str, str | None] | None, resolve: bool) -> TestRun:
        how = self._how
        while True:
            try:
                return run_test(
                    self.room(), how.pytest, test, args=how.args, timeout=how.timeout, seed=seed, resolve=resolve, program=how.program,
                    files=files, keep=self.keep if resolve else None,
                )  # fmt: skip
            except Broken:
                self._breaks += 1
                if self._breaks > 1:
                    raise
                self._stack.close()
                self._room = None

    def room(self) -> Room:
        """The room."""
        if self._room is None:
            self._room = self._stack.enter_context(self._rooms.room(self.commit, self.source))
        return self._room


def _passed(own: Sequence[TestRun]) -> bool:
    return all(run.outcome == "pass" for run in own)


def _proofs(
    local: Host,
    claim: Claim,
    how: How,
    bench: _Bench,
    edits: Sequence[Edit],
    whole: Sequence[Change],
    own: Sequence[TestRun],
) -> tuple[list[proof.Proof], list[Finding]]:
    """Red without the fix, as it is green with it."""
    fixes = proof.fixes_of(edits)
    if not fixes or not _passed(own):
        return [], []
    left = proof.MOST if how.level == "quick" else 1
    red = claim.red
    if red is None and left > 1:
        base = proof.before(whole)
        if base is not None:
            red = bench.run(claim.test, -1, files=base)
            left -= 1
            if _is_missing(red):  # there was no such test
                red = None
    return proof.prove(
        local,
        bench.repo,
        bench.commit,
        fixes,
        lambda files: bench.run(claim.test, -2, files=files),
        red,
        left,
    )


def _is_missing(run: TestRun) -> bool:
    return run.outcome == "error" and not run.ids


def _audit(
    bench: _Bench, claim: Claim, how: How, whole: Sequence[Change]
) -> tuple[dict[str, Any], list[Finding]] | None:
    """Whether the test would notice a program that does nothing. One that nobody changed is only told of."""
    from mngr.tmr.audit import Audited, examine

    if not how.program:
        return None
    key = [_RULES, "audit", bench.tree, command(how.pytest, how.args, claim.test.id), how.program]
    known = bench.shelf.get(key) if bench.shelf is not None else None
    if isinstance(known, dict):
        seen = Audited.from_dict(known)
    else:
        seen = examine(
            bench.room(),
            how.pytest,
            claim.test,
            program=how.program,
            args=how.args,
            modes=_AUDIT,
            timeout=how.timeout,
        )
        if bench.shelf is not None:
            bench.shelf.put(key, seen.to_dict())
    found = [hole.finding for hole in seen.holes]
    if all(change.path != claim.test.path for change in whole):
        found = [finding.replace(level="note") for finding in found]
    return seen.to_dict(), found


# What is written down


def _rows(found: Sequence[Finding]) -> list[dict[str, Any]]:
    return [finding.to_dict() for finding in found]


def _again(claim: Claim, how: How) -> dict[str, Any]:
    """All that somebody needs to run it again, but the repository."""
    return {
        "test": claim.test.to_dict(), "witnesses": [one.to_dict() for one in claim.witnesses], "is_shared": claim.is_shared,
        "kinds": claim.result.get("changes") or [], "pytest": how.pytest, "args": how.args, "timeout": how.timeout,
        "program": how.program, "faults": how.faults,
    }  # fmt: skip


def _hashes(receipt: Receipt, own: Sequence[TestRun], keep: str | None) -> dict[str, str]:
    def of(value: object) -> str:
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

    found = {"tree": receipt.tree, "command": of(receipt.command), "environment": of(receipt.environment)}
    transcripts = [run.transcripts for run in own if run.transcripts]
    if transcripts:
        found["transcript"] = of(transcripts[0])
    casts = sorted(_casts(keep)) if keep else []
    if casts:
        digest = hashlib.sha256()
        for path in casts:
            with open(path, "rb") as file:
                digest.update(file.read())
        found["recording"] = digest.hexdigest()
    return found


def _casts(place: str) -> list[str]:
    return [
        os.path.join(above, name)
        for above, _, names in os.walk(place)
        for name in names
        if name.endswith(".cast")
    ]
