"""Make a receipt: what the edit's text says, k runs in a clean room, the proof of each fix, and in full also audit and faults."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from mngr.base.errors import MngrError
from mngr.host.protocol import Host
from mngr.tmr.cleanroom.rooms import Broken, Rooms
from mngr.tmr.cleanroom.test_run import Test, TestRun, command
from mngr.tmr.finding import Finding
from mngr.tmr.result_cache import Shelf
from mngr.tmr.verify import red_green
from mngr.tmr.verify.claim_runs import Bench
from mngr.tmr.verify.edits import Edit, changes, commits_of
from mngr.tmr.verify.full_checks import Depth, passed
from mngr.tmr.verify.legacy.policy import Change
from mngr.tmr.verify.receipt import Receipt, judge
from mngr.tmr.verify.request import Claim, How
from mngr.tmr.verify.text_checks import against_policy, weakenings


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
                rooms, claim, how, blank, Bench(stack, rooms, claim, how, source, shelf, keep, done)
            )
    except Broken as error:
        return blank.replace(reason=f"the clean room broke twice: {error.message}")
    except MngrError as error:
        return blank.replace(reason=f"it could not be run: {error.message}")


def _verify(rooms: Rooms, claim: Claim, how: How, blank: Receipt, bench: Bench) -> Receipt:
    local, repo = rooms.fleet.context.local, bench.repo
    edits = commits_of(local, repo, claim.base, claim.commit, claim.result)
    whole = changes(local, repo, claim.base, claim.commit)
    policy = against_policy(edits, whole, how.policy, is_shared=claim.is_shared, is_claim=bool(claim.result))
    guard = weakenings(whole, claim.test if claim.is_one_of_many else None)
    if not how.trusts_setup and (risky := _sets_up(rooms, policy)):
        return _not_run(
            blank.replace(commit=bench.commit, tree=bench.tree, policy=_rows(policy), guard=_rows(guard)),
            risky,
        )
    depth = Depth(rooms, claim, how, bench, whole) if how.level == "full" else None
    own, others = bench.all(depth.audit() if depth else [], trace=depth is not None and depth.is_compared)
    proofs, found = _proofs(local, claim, how, bench, edits, whole, own)
    if claim.is_one_of_many:
        found = [finding for finding in found if finding.rule not in red_green.OF_ALL]
    found += [finding for run in (*own, *others) for finding in run.findings]
    if depth is not None and passed(own):
        depth.mutate(own, guard)
        found += depth.findings
    blank = blank.replace(commit=bench.commit, tree=bench.tree)
    receipt = judge(blank, own, others, [*policy, *guard, *found], how.program).replace(
        policy=_rows(policy), guard=_rows(guard), findings=_rows(found), proofs=[one.to_dict() for one in proofs],
        mutation=depth.mutation if depth else None, audit=depth.audited if depth else None,
    )  # fmt: skip
    return receipt.replace(hashes=_hashes(receipt, own, bench.keep))


def _proofs(
    local: Host,
    claim: Claim,
    how: How,
    bench: Bench,
    edits: Sequence[Edit],
    whole: Sequence[Change],
    own: Sequence[TestRun],
) -> tuple[list[red_green.Proof], list[Finding]]:
    """Red without the fix, as it is green with it."""
    fixes = red_green.fixes_of(edits)
    if not fixes or not passed(own):
        return [], []
    left = red_green.MOST if how.level == "quick" else 1
    red = claim.red
    if red is None and left > 1:
        base = red_green.before(whole)
        if base is not None:
            red = bench.run(claim.test, -1, files=base)
            left -= 1
            if _is_missing(red):  # there was no such test
                red = None
    return red_green.prove(
        local,
        bench.repo,
        bench.commit,
        fixes,
        lambda files: bench.run(claim.test, -2, files=files),
        red,
        left,
    )


def _sets_up(rooms: Rooms, policy: Sequence[Finding]) -> list[Finding]:
    """What of an edit decides how the project is set up, which is done outside of walls and with the network."""
    found = [one for one in policy if one.rule in ("policy-lock", "policy-config", "policy-startup")]
    is_set_up = rooms.fleet.context.settings.get("project.setup") is not None
    ours = any(one.level == "refuse" or one.path.startswith(".mngr/") for one in found)
    return found if is_set_up or ours else []


def _not_run(blank: Receipt, risky: Sequence[Finding]) -> Receipt:
    names = ", ".join(sorted({finding.path for finding in risky}))
    if any(finding.level == "refuse" for finding in risky):
        return blank.replace(
            verdict="refuted", reason=f"it was not run: it touches {names}, and {risky[0].what}"
        )
    return blank.replace(
        reason=f"it was not run: it changes how the project is set up ({names}), which is done outside of walls; with --trust-setup it is"
    )


def _is_missing(run: TestRun) -> bool:
    return run.outcome == "error" and not run.ids


# What is written down


def _rows(found: Sequence[Finding]) -> list[dict[str, Any]]:
    return [finding.to_dict() for finding in found]


def _again(claim: Claim, how: How) -> dict[str, Any]:
    """All that somebody needs to run it again, but the repository."""
    return {
        "test": claim.test.to_dict(), "witnesses": [one.to_dict() for one in claim.witnesses], "is_shared": claim.is_shared,
        "is_one_of_many": claim.is_one_of_many,
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
