"""Makes a receipt: checks the edit's text, runs the test k times in a clean room and proves each fix.

A full receipt also audits the test and tries mutants.
"""

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
from mngr.tmr.verify.claimed_commits import ClaimedCommit, diff_commits, list_commits
from mngr.tmr.verify.full_checks import FullChecks, has_passed
from mngr.tmr.verify.legacy.policy import Change
from mngr.tmr.verify.receipt import Receipt, make_receipt
from mngr.tmr.verify.request import VerifyOptions, VerifyRequest
from mngr.tmr.verify.text_checks import check_policy, list_weakenings


def verify(
    clean_rooms: CleanRoomPool,
    request: VerifyRequest,
    options: VerifyOptions,
    *,
    cache: ResultCache | None = None,
    artifacts_dir: str | None = None,
    on_run: Callable[[TestFunction, TestRun], None] | None = None,
) -> Receipt:
    """Verify a claim about a commit and return the receipt, `unverified` if it cannot be run.

    `artifacts_dir` receives the artifacts, and `on_run` is called with each run.
    """
    blank = Receipt(
        test=request.test.id, verdict="unverified", reason="", commit=request.commit, base=request.base, level=options.level,
        command=build_command(options.pytest, options.args, request.test.id), k=options.runs, seed=options.seed, again=_describe_rerun(request, options),
    )  # fmt: skip
    try:
        runner = ClaimRunner(clean_rooms, request, options, cache=cache, artifacts_dir=artifacts_dir, on_run=on_run)
        with contextlib.closing(runner):
            return _verify_in_room(clean_rooms, request, options, blank, runner)
    except CleanRoomBroken as error:
        return blank.replace(reason=f"the clean room broke twice: {error.message}")
    except MngrError as error:
        return blank.replace(reason=f"it could not be run: {error.message}")


def _verify_in_room(
    clean_rooms: CleanRoomPool, request: VerifyRequest, options: VerifyOptions, blank: Receipt, runner: ClaimRunner
) -> Receipt:
    """Run all checks of a claim and return its receipt."""
    local, repo = clean_rooms.fleet.context.local_host, runner.repo
    commits = list_commits(local, repo, request.base, request.commit, request.claim)
    changes = diff_commits(local, repo, request.base, request.commit)
    policy = check_policy(commits, changes, options.policy, is_shared=request.is_shared, is_claim=bool(request.claim))
    guard = list_weakenings(changes, request.test if request.is_one_of_many else None)
    if not options.trusts_setup and (setup_findings := _list_setup_findings(clean_rooms, policy)):
        return _make_unverified(
            blank.replace(commit=runner.commit, tree=runner.tree, policy=_to_rows(policy), guard=_to_rows(guard)),
            setup_findings,
        )
    full_checks = FullChecks(clean_rooms, request, options, runner, changes) if options.level == "full" else None
    test_runs, affected_runs = runner.run_all(
        full_checks.run_audit() if full_checks else [], trace=full_checks is not None and full_checks.is_test_changed
    )
    proofs, findings = _prove_fixes(local, request, options, runner, commits, changes, test_runs)
    if request.is_one_of_many:
        findings = [finding for finding in findings if finding.rule not in red_green.CROSS_TEST_RULES]
    findings += [finding for run in (*test_runs, *affected_runs) for finding in run.findings]
    if full_checks is not None and has_passed(test_runs):
        full_checks.run_mutation(test_runs, guard)
        findings += full_checks.findings
    blank = blank.replace(commit=runner.commit, tree=runner.tree)
    receipt = make_receipt(blank, test_runs, affected_runs, [*policy, *guard, *findings], options.program).replace(
        policy=_to_rows(policy), guard=_to_rows(guard), findings=_to_rows(findings), proofs=[proof.to_dict() for proof in proofs],
        mutation=full_checks.mutation if full_checks else None, audit=full_checks.audited if full_checks else None,
    )  # fmt: skip
    return receipt.replace(hashes=_compute_hashes(receipt, test_runs, runner.keep))


def _prove_fixes(
    local: Host,
    request: VerifyRequest,
    options: VerifyOptions,
    runner: ClaimRunner,
    commits: Sequence[ClaimedCommit],
    changes: Sequence[Change],
    test_runs: Sequence[TestRun],
) -> tuple[list[red_green.RedGreenProof], list[Finding]]:
    """Show that the test fails without each fix, as it passes with it."""
    fixes = red_green.list_fixes(commits)
    if not fixes or not has_passed(test_runs):
        return [], []
    runs_left = red_green.MAX_RUNS if options.level == "quick" else 1
    base_run = request.base_run
    if base_run is None and runs_left > 1:
        base_files = red_green.find_base_files(changes)
        if base_files is not None:
            base_run = runner.run_test(request.test, -1, files=base_files)
            runs_left -= 1
            if _is_test_missing(base_run):  # the base has no such test
                base_run = None
    return red_green.prove_fixes(
        local,
        runner.repo,
        runner.commit,
        fixes,
        lambda files: runner.run_test(request.test, -2, files=files),
        base_run,
        runs_left,
    )


def _list_setup_findings(clean_rooms: CleanRoomPool, policy: Sequence[Finding]) -> list[Finding]:
    """Return the findings about files that decide the project's set-up, which runs outside the sandbox."""
    findings = [finding for finding in policy if finding.rule in ("policy-lock", "policy-config", "policy-startup")]
    is_set_up = clean_rooms.fleet.context.settings.get("project.setup") is not None
    is_forbidden = any(finding.level == "refuse" or finding.path.startswith(".mngr/") for finding in findings)
    return findings if is_set_up or is_forbidden else []


def _make_unverified(blank: Receipt, setup_findings: Sequence[Finding]) -> Receipt:
    """Return the receipt of a claim that was not run because it changes the set-up."""
    names = ", ".join(sorted({finding.path for finding in setup_findings}))
    if any(finding.level == "refuse" for finding in setup_findings):
        return blank.replace(
            verdict="refuted", reason=f"it was not run: it touches {names}, and {setup_findings[0].what}"
        )
    return blank.replace(
        reason=f"it was not run: it changes how the project is set up ({names}), which is done outside of walls; with --trust-setup it is"
    )


def _is_test_missing(run: TestRun) -> bool:
    return run.outcome == "error" and not run.ids


# Writing the receipt


def _to_rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [finding.to_dict() for finding in findings]


def _describe_rerun(request: VerifyRequest, options: VerifyOptions) -> dict[str, Any]:
    """Return everything that is needed to repeat the verification, except the repository."""
    return {
        "test": request.test.to_dict(), "witnesses": [test.to_dict() for test in request.affected_tests], "is_shared": request.is_shared,
        "is_one_of_many": request.is_one_of_many,
        "kinds": request.claim.get("changes") or [], "pytest": options.pytest, "args": options.args, "timeout": options.timeout,
        "program": options.program, "faults": options.mutant_count,
    }  # fmt: skip


def _compute_hashes(receipt: Receipt, test_runs: Sequence[TestRun], artifacts_dir: str | None) -> dict[str, str]:
    """Return the hashes that identify what was run and recorded."""

    def hash_json(value: object) -> str:
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

    hashes = {
        "tree": receipt.tree,
        "command": hash_json(receipt.command),
        "environment": hash_json(receipt.environment),
    }
    transcripts = [run.transcripts for run in test_runs if run.transcripts]
    if transcripts:
        hashes["transcript"] = hash_json(transcripts[0])
    recordings = sorted(_list_recordings(artifacts_dir)) if artifacts_dir else []
    if recordings:
        digest = hashlib.sha256()
        for path in recordings:
            with open(path, "rb") as file:
                digest.update(file.read())
        hashes["recording"] = digest.hexdigest()
    return hashes


def _list_recordings(directory: str) -> list[str]:
    return [
        os.path.join(parent, name)
        for parent, _, names in os.walk(directory)
        for name in names
        if name.endswith(".cast")
    ]
