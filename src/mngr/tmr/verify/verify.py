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
from mngr.tmr.cleanroom.clean_rooms import CleanRoomBroken, CleanRoomPool
from mngr.tmr.cleanroom.test_run import TestFunction, TestRun, build_command
from mngr.tmr.finding import Finding
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.verify import red_green
from mngr.tmr.verify.claim_runs import ClaimRunner
from mngr.tmr.verify.edits import ClaimedCommit, diff_commits, list_commits
from mngr.tmr.verify.full_checks import FullChecks, has_passed
from mngr.tmr.verify.legacy.policy import Change
from mngr.tmr.verify.receipt import Receipt, make_receipt
from mngr.tmr.verify.request import VerifyOptions, VerifyRequest
from mngr.tmr.verify.text_checks import check_policy, list_weakenings


def verify(
    rooms: CleanRoomPool,
    claim: VerifyRequest,
    how: VerifyOptions,
    *,
    source: str | None = None,
    shelf: ResultCache | None = None,
    keep: str | None = None,
    done: Callable[[TestFunction, TestRun], None] | None = None,
) -> Receipt:
    """Check a claim about a commit of `source`; what cannot be run is `unverified`. `keep` is a directory for artifacts."""
    blank = Receipt(
        test=claim.test.id, verdict="unverified", reason="", commit=claim.commit, base=claim.base, level=how.level,
        command=build_command(how.pytest, how.args, claim.test.id), k=how.runs, seed=how.seed, again=_describe_rerun(claim, how),
    )  # fmt: skip
    try:
        with contextlib.ExitStack() as stack:
            return _verify_in_room(
                rooms, claim, how, blank, ClaimRunner(stack, rooms, claim, how, source, shelf, keep, done)
            )
    except CleanRoomBroken as error:
        return blank.replace(reason=f"the clean room broke twice: {error.message}")
    except MngrError as error:
        return blank.replace(reason=f"it could not be run: {error.message}")


def _verify_in_room(
    rooms: CleanRoomPool, claim: VerifyRequest, how: VerifyOptions, blank: Receipt, bench: ClaimRunner
) -> Receipt:
    local, repo = rooms.fleet.context.local_host, bench.repo
    edits = list_commits(local, repo, claim.base, claim.commit, claim.claim)
    whole = diff_commits(local, repo, claim.base, claim.commit)
    policy = check_policy(edits, whole, how.policy, is_shared=claim.is_shared, is_claim=bool(claim.claim))
    guard = list_weakenings(whole, claim.test if claim.is_one_of_many else None)
    if not how.trusts_setup and (risky := _list_setup_findings(rooms, policy)):
        return _make_unverified(
            blank.replace(commit=bench.commit, tree=bench.tree, policy=_to_rows(policy), guard=_to_rows(guard)),
            risky,
        )
    depth = FullChecks(rooms, claim, how, bench, whole) if how.level == "full" else None
    own, others = bench.run_all(depth.run_audit() if depth else [], trace=depth is not None and depth.is_test_changed)
    proofs, found = _prove_fixes(local, claim, how, bench, edits, whole, own)
    if claim.is_one_of_many:
        found = [finding for finding in found if finding.rule not in red_green.CROSS_TEST_RULES]
    found += [finding for run in (*own, *others) for finding in run.findings]
    if depth is not None and has_passed(own):
        depth.run_mutation(own, guard)
        found += depth.findings
    blank = blank.replace(commit=bench.commit, tree=bench.tree)
    receipt = make_receipt(blank, own, others, [*policy, *guard, *found], how.program).replace(
        policy=_to_rows(policy), guard=_to_rows(guard), findings=_to_rows(found), proofs=[one.to_dict() for one in proofs],
        mutation=depth.mutation if depth else None, audit=depth.audited if depth else None,
    )  # fmt: skip
    return receipt.replace(hashes=_compute_hashes(receipt, own, bench.keep))


def _prove_fixes(
    local: Host,
    claim: VerifyRequest,
    how: VerifyOptions,
    bench: ClaimRunner,
    edits: Sequence[ClaimedCommit],
    whole: Sequence[Change],
    own: Sequence[TestRun],
) -> tuple[list[red_green.RedGreenProof], list[Finding]]:
    """Red without the fix, as it is green with it."""
    fixes = red_green.list_fixes(edits)
    if not fixes or not has_passed(own):
        return [], []
    left = red_green.MAX_RUNS if how.level == "quick" else 1
    red = claim.base_run
    if red is None and left > 1:
        base = red_green.find_base_files(whole)
        if base is not None:
            red = bench.run_test(claim.test, -1, files=base)
            left -= 1
            if _is_test_missing(red):  # there was no such test
                red = None
    return red_green.prove_fixes(
        local,
        bench.repo,
        bench.commit,
        fixes,
        lambda files: bench.run_test(claim.test, -2, files=files),
        red,
        left,
    )


def _list_setup_findings(rooms: CleanRoomPool, policy: Sequence[Finding]) -> list[Finding]:
    """What of an edit decides how the project is set up, which is done outside of walls and with the network."""
    found = [one for one in policy if one.rule in ("policy-lock", "policy-config", "policy-startup")]
    is_set_up = rooms.fleet.context.settings.get("project.setup") is not None
    ours = any(one.level == "refuse" or one.path.startswith(".mngr/") for one in found)
    return found if is_set_up or ours else []


def _make_unverified(blank: Receipt, risky: Sequence[Finding]) -> Receipt:
    names = ", ".join(sorted({finding.path for finding in risky}))
    if any(finding.level == "refuse" for finding in risky):
        return blank.replace(verdict="refuted", reason=f"it was not run: it touches {names}, and {risky[0].what}")
    return blank.replace(
        reason=f"it was not run: it changes how the project is set up ({names}), which is done outside of walls; with --trust-setup it is"
    )


def _is_test_missing(run: TestRun) -> bool:
    return run.outcome == "error" and not run.ids


# What is written down


def _to_rows(found: Sequence[Finding]) -> list[dict[str, Any]]:
    return [finding.to_dict() for finding in found]


def _describe_rerun(claim: VerifyRequest, how: VerifyOptions) -> dict[str, Any]:
    """All that somebody needs to run it again, but the repository."""
    return {
        "test": claim.test.to_dict(), "witnesses": [one.to_dict() for one in claim.affected_tests], "is_shared": claim.is_shared,
        "is_one_of_many": claim.is_one_of_many,
        "kinds": claim.claim.get("changes") or [], "pytest": how.pytest, "args": how.args, "timeout": how.timeout,
        "program": how.program, "faults": how.mutant_count,
    }  # fmt: skip


def _compute_hashes(receipt: Receipt, own: Sequence[TestRun], keep: str | None) -> dict[str, str]:
    def of(value: object) -> str:
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

    found = {"tree": receipt.tree, "command": of(receipt.command), "environment": of(receipt.environment)}
    transcripts = [run.transcripts for run in own if run.transcripts]
    if transcripts:
        found["transcript"] = of(transcripts[0])
    casts = sorted(_list_recordings(keep)) if keep else []
    if casts:
        digest = hashlib.sha256()
        for path in casts:
            with open(path, "rb") as file:
                digest.update(file.read())
        found["recording"] = digest.hexdigest()
    return found


def _list_recordings(place: str) -> list[str]:
    return [os.path.join(above, name) for above, _, names in os.walk(place) for name in names if name.endswith(".cast")]
