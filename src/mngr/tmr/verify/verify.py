"""Makes a receipt: checks the edit's text, runs the test k times in a clean room, proves each fix and experiments."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from functools import partial

from mngr.agents.sandbox.host_isolation import SandboxUnavailable
from mngr.base.errors import EngineBusy, MngrError
from mngr.base.paths import open_plain_file
from mngr.host.protocol import Host
from mngr.tmr.cleanroom.clean_room import CleanRoomBroken
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.finding import Finding
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.runners.choose_runner import choose_runner
from mngr.tmr.runners.test_run import TestFunction, TestRun
from mngr.tmr.verify import red_green
from mngr.tmr.verify.claim_runs import ClaimRunner
from mngr.tmr.verify.commit_diffs import ClaimedCommit, diff_commits, list_commits
from mngr.tmr.verify.commit_files import is_word_of_program, read_files
from mngr.tmr.verify.expected_reports import update_ids
from mngr.tmr.verify.experiments.changed_test_lines import is_test_changed
from mngr.tmr.verify.experiments.experiment import ExperimentInputs
from mngr.tmr.verify.experiments.run_experiments import ExperimentReport, list_unmade, run_experiments
from mngr.tmr.verify.experiments.text_rule_weight import weigh_rows, weigh_text_findings
from mngr.tmr.verify.project_setup_changes import add_setup_row, list_changed_inputs, list_setup_changes
from mngr.tmr.verify.receipt import NOT_RUN, Receipt, VerificationInputs, list_experiments, make_receipt
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.text_checks import check_policy, list_weakenings
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest

# A trial may take _TRIAL_SECONDS and _TRIAL_TIMES as long as the first run.
_TRIAL_SECONDS, _TRIAL_TIMES = 5.0, 4.0
_USUAL_RUNS = 3  # the experiments of a test that runs less often may take as long as after so many runs


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
        test=request.test.id,
        verdict="unverified",
        reason="",
        commit=request.commit,
        base=request.base,
        level=options.level,
        command=choose_runner(options).command(request.test.id),
        runs=options.runs,
        seed=options.seed,
        rerun=_collect_inputs(request, options),
    )
    blank = blank.replace(experiments=list_experiments(blank.replace(experiments=list_unmade(NOT_RUN).rows)))
    try:
        with ClaimRunner(
            clean_rooms, request, options, cache=cache, artifacts_dir=artifacts_dir, on_run=on_run
        ) as runner:
            return _verify_in_room(clean_rooms, request, options, blank, runner)
    except (SandboxUnavailable, EngineBusy):  # this says nothing about the claim
        raise
    except CleanRoomBroken as error:
        return blank.replace(reason=f"the clean room broke twice: {error.message}")
    except MngrError as error:
        return blank.replace(reason=f"mngr could not run it: {error.message}")


def _verify_in_room(
    clean_rooms: CleanRoomPool, request: VerifyRequest, options: VerifyOptions, blank: Receipt, runner: ClaimRunner
) -> Receipt:
    """Run all checks of a claim and return its receipt."""
    local, repo = clean_rooms.fleet.context.local_host, runner.repo
    commits = list_commits(local, repo, request.base, request.commit, request.claimed_changes or ())
    changes = diff_commits(local, repo, request.base, request.commit)
    is_claim = request.claimed_changes is not None
    settings = clean_rooms.settings
    rules = add_setup_row(options.policy, list_changed_inputs(settings, changes))
    policy = check_policy(commits, changes, rules, is_shared=request.is_shared, is_claim=is_claim)
    own_guard = list_weakenings(changes, request.test)
    guard = own_guard if request.is_one_of_many else list_weakenings(changes)
    blank = blank.replace(commit=runner.commit, tree=runner.tree, policy=policy, guard=guard)
    setup_changes = [] if options.trusts_setup else list_setup_changes(settings, changes, policy)
    if setup_changes:
        return _make_unverified(blank, setup_changes, policy)
    test_runs, affected_runs = runner.run_all(trace=is_test_changed(changes, request.test))
    tests = update_ids([request.test, *request.affected_tests], [*test_runs, *affected_runs], runner.collect)
    request = request.replace(test=tests[0], affected_tests=tests[1:])
    proofs, findings = _prove_fixes(local, request, options, runner, commits, changes, test_runs)
    if request.is_one_of_many:
        findings = [finding for finding in findings if finding.rule not in red_green.CROSS_TEST_RULES]
    findings += [finding for run in (*test_runs, *affected_runs) for finding in run.findings]
    report = _run_experiments(clean_rooms, request, options, runner, changes, test_runs)
    findings += report.findings
    rows = weigh_rows(report.rows, guard, request.test.path)
    about_test = [finding for finding in own_guard if finding.path == request.test.path]
    guard = weigh_text_findings(guard, rows, report.findings, about_test)
    blank = blank.replace(guard=guard, findings=findings, proofs=proofs, experiments=rows)
    receipt = make_receipt(blank, test_runs, affected_runs, tests, options.program)
    return receipt.replace(hashes=_compute_hashes(receipt, test_runs, runner.keep))


def _run_experiments(
    clean_rooms: CleanRoomPool,
    request: VerifyRequest,
    options: VerifyOptions,
    runner: ClaimRunner,
    changes: Sequence[ChangedFile],
    test_runs: Sequence[TestRun],
) -> ExperimentReport:
    """Run the experiments of a test that passed, within a multiple of the time of its runs."""
    if not _has_passed(test_runs):
        return list_unmade("the test does not pass")
    first_run = next((run for run in test_runs if run.lines), test_runs[0])
    local = clean_rooms.fleet.context.local_host
    inputs = ExperimentInputs(
        test=request.test,
        level=options.level,
        seed=options.seed,
        changes=list(changes),
        is_test_changed=is_test_changed(changes, request.test),
        first_run=first_run,
        plain_seconds=max(sum(run.seconds for run in test_runs), _USUAL_RUNS * first_run.seconds),
        trial_timeout=min(options.timeout, _TRIAL_SECONDS + _TRIAL_TIMES * first_run.seconds),
        read_files=partial(read_files, local, runner.repo, runner.commit),
        is_word_of_base=partial(is_word_of_program, local, runner.repo, request.base),
    )
    return runner.find_or_run_experiments(lambda: run_experiments(inputs, runner.run_trials))


def _prove_fixes(
    local: Host,
    request: VerifyRequest,
    options: VerifyOptions,
    runner: ClaimRunner,
    commits: Sequence[ClaimedCommit],
    changes: Sequence[ChangedFile],
    test_runs: Sequence[TestRun],
) -> tuple[list[red_green.RedGreenProof], list[Finding]]:
    """Show that the test fails without each fix, as it passes with it."""
    fixes = red_green.list_fixes(commits)
    if not fixes or not _has_passed(test_runs):
        return [], []
    runs_left = red_green.MAX_RUNS if options.level == "quick" else 1
    base_run, own_base_run = request.base_run, None
    if base_run is None and runs_left > 1:
        base_files = red_green.find_base_files(changes)
        if base_files is not None:
            base_run = own_base_run = runner.run_test(request.test, -1, files=base_files)
            runs_left -= 1
            if _is_test_missing(base_run):  # the base has no such test
                base_run = None
    proofs, findings = red_green.prove_fixes(
        local,
        runner.repo,
        runner.commit,
        fixes,
        lambda files: runner.run_test(request.test, -2, files=files),
        base_run,
        runs_left,
    )
    return red_green.add_base_run(proofs, own_base_run), findings


def _make_unverified(blank: Receipt, setup_changes: Sequence[str], policy: Sequence[Finding]) -> Receipt:
    """Return the receipt of a claim that was not run because it changes the set-up."""
    names = ", ".join(setup_changes)
    refusal = next((one for one in policy if one.path in setup_changes and one.level == "refuse"), None)
    if refusal is not None:
        return blank.replace(verdict="refuted", reason=f"mngr did not run it: it changes {names}, and {refusal.what}")
    return blank.replace(
        reason=f"mngr did not run it, because it changes how the project is set up ({names}). "
        "If you trust these files: mngr tmr verify BRANCH --trust-setup"
    )


def _has_passed(test_runs: Sequence[TestRun]) -> bool:
    return all(run.outcome == "pass" for run in test_runs)


def _is_test_missing(run: TestRun) -> bool:
    return run.outcome == "error" and not run.ids


# Writing the receipt


def _collect_inputs(request: VerifyRequest, options: VerifyOptions) -> VerificationInputs:
    return VerificationInputs(
        test=request.test,
        affected_tests=request.affected_tests,
        is_shared=request.is_shared,
        is_one_of_many=request.is_one_of_many,
        claimed_changes=request.claimed_changes,
        pytest=options.pytest,
        args=options.args,
        timeout=options.timeout,
        program=options.program,
    )


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
            with contextlib.suppress(OSError), open_plain_file(path) as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
        hashes["recording"] = digest.hexdigest()
    return hashes


def _list_recordings(directory: str) -> list[str]:
    return [
        os.path.join(parent, name)
        for parent, _, names in os.walk(directory)
        for name in names
        if name.endswith(".cast")
    ]
