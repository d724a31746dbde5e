"""Receipts, first form: our own process runs the claimed commit in a clean room, k times, with the cluster's witnesses."""

from __future__ import annotations

from mngr.errors import MngrError
from mngr.model import Record
from mngr.tmr.baseline import verdict as together
from mngr.tmr.resolve import problems
from mngr.tmr.rooms import Broken
from mngr.tmr.testing import TIMEOUT, TestRun, command, run_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mngr.tmr.collect import Test
    from mngr.tmr.rooms import Rooms

_SHOWN = 2_000  # characters of an explanation


class Receipt(Record):
    """What counts: what we saw when we ran it."""

    v: int = 1
    test: str
    verdict: str  # confirmed | refuted | flaky | unverified
    reason: str  # a sentence, for every verdict
    commit: str
    tree: str = ""
    command: list[str]
    k: int
    results: list[dict[str, Any]] = []  # outcome, seconds, why of each run of the test, in order
    witnesses: list[dict[str, Any]] = []  # the same of the others that the cause broke
    imported_from: dict[str, str] = {}
    seed: int = 0
    seconds: float = 0.0  # of all runs


def verify(
    rooms: Rooms,
    commit: str,
    test: Test,
    pytest: Sequence[str],
    *,
    witnesses: Sequence[Test] = (),
    k: int = 3,
    args: Sequence[str] = (),
    timeout: float = TIMEOUT,
    source: str | None = None,
    program: str | None = None,
    seed: int = 0,
    done: Callable[[Test, TestRun], None] | None = None,
) -> Receipt:
    """Run a claimed commit (of `source`, the run's own repository) and say what is so. What cannot be run is `unverified`."""
    blank = Receipt(
        test=test.id,
        verdict="unverified",
        reason="",
        commit=commit,
        command=command(pytest, args, test.id),
        k=k,
        seed=seed,
    )
    for last in (False, True):
        try:
            with rooms.room(commit, source) as room:
                order = _order(test, witnesses, k, seed)
                runs: list[tuple[Test, TestRun]] = []
                for number, one in enumerate(order):
                    run = run_test(
                        room,
                        pytest,
                        one,
                        args=args,
                        timeout=timeout,
                        seed=seed + number,
                        resolve=not runs,
                        program=program,
                    )
                    runs.append((one, run))
                    if done is not None:
                        done(one, run)
                return _judge(blank.replace(commit=room.commit, tree=room.tree), test, runs, program)
        except Broken as error:
            if last:
                return blank.replace(reason=f"the clean room broke twice: {error.message}")
        except MngrError as error:
            return blank.replace(reason=f"it could not be run: {error.message}")
    raise AssertionError


def _order(test: Test, witnesses: Sequence[Test], k: int, seed: int) -> list[Test]:
    """The test k times and each witness once, in an order that the seed decides."""
    import random

    order = [test] * k + [witness for witness in witnesses if witness.id != test.id]
    random.Random(seed).shuffle(order)
    return order


def _judge(blank: Receipt, test: Test, runs: list[tuple[Test, TestRun]], program: str | None) -> Receipt:
    own = [run for one, run in runs if one.id == test.id]
    others = [run for one, run in runs if one.id != test.id]
    imported = {name: path for _, run in runs for name, path in run.imported_from.items()}
    found = blank.replace(
        results=[_row(run) for run in own],
        witnesses=[{"test": run.test, **_row(run)} for run in others],
        imported_from=dict(sorted(imported.items())),
        seconds=sum(run.seconds for _, run in runs),
    )
    verdict, reason = decide(own, others, _wrong_code(runs, program))
    return found.replace(verdict=verdict, reason=reason)


def decide(own: Sequence[TestRun], others: Sequence[TestRun], wrong: str = "") -> tuple[str, str]:
    """(verdict, reason) of the runs of a test and of its witnesses."""
    if wrong:
        return "unverified", f"wrong code under test: {wrong}"
    passed = sum(run.outcome == "pass" for run in own)
    bad = next((run for run in own if run.outcome != "pass"), None)
    if bad is not None and passed:
        return "flaky", f"it passed {passed} of {len(own)} times; else {bad.outcome}: {_why(bad)}"
    if bad is not None:
        return "refuted", f"{_verb(bad)} {_times(len(own))}: {_why(bad)}"
    kinds: dict[str, list[str]] = {}
    for run in others:
        kinds.setdefault(run.test, []).append(run.outcome)
    for name, outcomes in kinds.items():
        if together(outcomes) != "pass":
            bad = next(run for run in others if run.test == name and run.outcome != "pass")
            return "refuted", f"the witness {name} does not pass: {_why(bad)}"
    reruns = sum(run.reruns for run in own)
    if reruns:
        return "flaky", f"it passed only because a plugin repeated it: {reruns}"
    also = (
        f", and so did {len(kinds)} witnesses"
        if len(kinds) > 1
        else ", and so did its witness"
        if kinds
        else ""
    )
    return "confirmed", f"it passed {passed} of {len(own)} times{also}"


def _wrong_code(runs: list[tuple[Test, TestRun]], program: str | None) -> str:
    for _, run in runs:
        found = [*run.wrong_code, *problems(run.resolved, program)]
        if found:
            return found[0]
    return ""


def _row(run: TestRun) -> dict[str, Any]:
    row: dict[str, Any] = {
        "outcome": run.outcome,
        "seconds": round(run.seconds, 3),
        "exit_code": run.exit_code,
    }
    if run.outcome != "pass":
        row["why"] = _why(run)
    if run.failures:
        row["text"] = run.failures[0].text[-_SHOWN:]
    if run.missing:
        row["missing"] = run.missing
    if run.left:
        row["left"] = run.left
    return row


def _why(run: TestRun) -> str:
    return run.why or run.outcome


def _verb(run: TestRun) -> str:
    return {"skip": "it was skipped", "timeout": "it did not end", "crash": "it crashed"}.get(
        run.outcome, "it failed"
    )


def _times(count: int) -> str:
    return "when it was run" if count == 1 else f"{count} of {count} times"
