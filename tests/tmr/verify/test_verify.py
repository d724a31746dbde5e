"""Receipts: checks of an edit's text, runs in a clean room, and the proof of a fix. Nothing is run twice."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mngr.base.errors import MngrError
from mngr.base.json_structs import encode
from mngr.base.paths import Home
from mngr.testkit.contract.mngr_program import run_git
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions
from mngr.tmr.prepare.history.flaky_list import FlakyTestFile, list_suspects
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.runners.test_run import TestRun
from mngr.tmr.verify.claim import ClaimedChange
from mngr.tmr.verify.receipt import Receipt, RunResult
from mngr.tmr.verify.verify import verify
from mngr.tmr.verify.verify_branch import BranchRequest, compare_receipts, recheck_receipt, verify_branch
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest
from tests.tmr.world import BARE, PYTEST, World, new_world

pytestmark = pytest.mark.agents

TILL = """
    def total(prices):
        return sum(prices) {more}


    def cheapest(prices):
        return {least}
    """
TEST = """
    from till import cheapest, total


    def test_total():
        \"""All prices together.\"""
        assert total([1, 2]) == 3


    def test_cheapest():
        \"""The least of them.\"""
        assert cheapest([2, 1]) == 1
    """
QUICK = ["env", *(f"{name}={value}" for name, value in BARE.items()), *PYTEST]
BROKEN = TILL.format(more="+ 1", least="min(prices)")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {"till.py": BROKEN, "tests/test_till.py": TEST, "conftest.py": ""}
    with new_world(tmp_path_factory.mktemp("verify"), files) as new:
        yield new


def commit_edit(world: World, message: str, files: dict[str, str]) -> str:
    """Commit an edit on the base, return to the main branch and return the commit."""
    run_git(world.repo, "checkout", "-q", "-B", "edit", world.base)
    for name, text in files.items():
        (world.repo / name).parent.mkdir(exist_ok=True)
        (world.repo / name).write_text(textwrap.dedent(text))
    run_git(world.repo, "add", "-f", *files)
    run_git(world.repo, "commit", "-qm", message)
    commit = run_git(world.repo, "rev-parse", "HEAD")
    run_git(world.repo, "update-ref", f"refs/heads/{commit[:8]}", commit)
    run_git(world.repo, "checkout", "-q", "main")
    return commit


def verify_commit(world: World, commit: str, name: str = "test_total", **fields: Any) -> Receipt:
    options = VerifyOptions(pytest=fields.pop("pytest", PYTEST), runs=1)
    cache = fields.pop("shelf", None)
    request = VerifyRequest(
        test=world.test(name), commit=commit, base=world.base, claimed_changes=CLAIMED_CHANGES, **fields
    )
    return verify(world.rooms, request, options, cache=cache)


CLAIMED_CHANGES = [ClaimedChange(kind="FIX_IMPL")]


def test_a_fix_is_proven_by_a_test_that_fails_without_it_and_runs_are_cached(world: World) -> None:
    fixed = commit_edit(world, "[FIX_IMPL] One too many", {"till.py": TILL.format(more="", least="min(prices)")})
    log = world.root / "log"
    counting_pytest = ["sh", "-c", f'echo run >>{log}; exec "$0" "$@"', *PYTEST]
    cache = ResultCache(str(world.root), "verify")
    receipt = verify_commit(world, fixed, pytest=counting_pytest, shelf=cache)
    assert (receipt.verdict, receipt.all_findings) == ("confirmed", [])
    (proof,) = receipt.proofs
    assert (proof.before, proof.without, proof.is_needed) == ("fail", "fail", True)
    assert proof.fixes == [fixed] and proof.is_same_reason is True
    assert {"tree", "command", "environment"} <= receipt.hashes.keys() and receipt.environment["packages"]
    assert [row.name for row in receipt.experiments if not row.reason] == []
    (red_green,) = [row for row in receipt.experiments if row.name == "red_green"]
    assert (red_green.reason, red_green.trials) == ("the test fails without the fix", 2) and red_green.seconds > 0
    # At the commit, on the base, without the fix, and twice for the trials: the second command repeats recorded calls.
    assert log.read_text() == "run\n" * 5
    assert verify_commit(world, fixed, pytest=counting_pytest, shelf=cache) == receipt
    assert log.read_text() == "run\n" * 5


def test_an_unneeded_fix_is_a_finding(world: World) -> None:
    idle = commit_edit(world, "[FIX_IMPL] Sorted", {"till.py": TILL.format(more="+ 1", least="sorted(prices)[0]")})
    receipt = verify_commit(world, idle, "test_cheapest")
    assert receipt.verdict == "confirmed"
    assert {finding.rule for finding in receipt.findings} == {"fix-not-needed", "never-red"}


def test_a_weakened_test_is_refuted_with_its_line(world: World) -> None:
    weaker = commit_edit(world, "[FIX_TEST] The sum", {"tests/test_till.py": TEST.replace("== 3", "is not None")})
    receipt = verify_commit(world, weaker)
    assert receipt.verdict == "refuted" and "tests/test_till.py:7: test_total" in receipt.reason
    assert [finding.level for finding in receipt.guard] == ["refuse"]
    assert [result.outcome for result in receipt.results] == ["pass"]


def test_touching_files_that_the_kind_forbids_is_refuted(world: World) -> None:
    files = {"till.py": TILL.format(more="", least="min(prices)"), "conftest.py": "import till\n"}
    receipt = verify_commit(world, commit_edit(world, "[FIX_TEST] All of it", files))
    assert receipt.verdict == "refuted"
    refused = {(finding.rule, finding.path) for finding in receipt.policy if finding.level == "refuse"}
    assert refused == {("policy-implementation", "till.py"), ("policy-conftest", "conftest.py")}


def test_a_claim_with_too_many_commits_is_unverified(world: World) -> None:
    tree = run_git(world.repo, "rev-parse", f"{world.base}^{{tree}}")
    head = world.base
    for _ in range(201):
        head = run_git(world.repo, "commit-tree", tree, "-p", head, "-m", "more")
    run_git(world.repo, "update-ref", "refs/heads/many", head)
    receipt = verify_commit(world, head)
    assert receipt.verdict == "unverified" and "more than 200 commits" in receipt.reason


def test_a_claim_that_changes_the_set_up_is_refuted_without_a_run(world: World) -> None:
    trace = world.root / "trace"
    files = {
        "conftest.py": f"open({str(trace)!r}, 'w')\n",
        ".mngr/settings.toml": f'[project]\nsetup = "touch {trace}"\n',
    }
    receipt = verify_commit(world, commit_edit(world, "[FIX_IMPL] Set up", files))
    assert receipt.verdict == "refuted" and "mngr did not run it: it changes .mngr/settings.toml" in receipt.reason
    assert not trace.exists() and receipt.results == []


def test_a_branch_is_verified_and_its_receipt_can_be_rechecked(world: World, tmp_path: Path) -> None:
    files = {
        "till.py": TILL.format(more="", least="min(prices)"),
        "tests/test_till.py": TEST.replace("== 3", "== 3\n        assert total([]) == 0"),
    }
    branch = commit_edit(world, "Count right", files)
    before = run_git(world.repo, "count-objects")
    reported: list[str] = []
    verified = verify_branch(
        world.fleet,
        str(world.repo),
        BranchRequest(ref=branch, base=world.base),
        VerifyOptions(pytest=QUICK, runs=1),
        CleanRoomOptions(),
        cache=None,
        on_receipt=lambda receipt: reported.append(receipt.test),
    )
    assert (verified.verdict, reported) == ("confirmed", ["tests/test_till.py::test_total"])
    assert verified.findings == []
    assert run_git(world.repo, "count-objects") == before
    data = encode(verified.receipts[0])
    options = VerifyOptions(pytest=QUICK)
    recheck = recheck_receipt(world.fleet, str(world.repo), "r.json", data, CleanRoomOptions(), options)
    assert recheck.before == verified.receipts[0]
    assert recheck.differences == []
    changed = recheck.before.replace(verdict="refuted", results=[RunResult(outcome="fail")])
    assert compare_receipts(changed, recheck.after) == [
        "verdict: refuted before, confirmed now", "results: ['fail'] before, ['pass'] now",
    ]  # fmt: skip


def test_a_rechecked_receipt_runs_the_users_command_and_not_its_own(world: World, tmp_path: Path) -> None:
    branch = commit_edit(world, "Count wrong", {"tests/test_till.py": TEST.replace("== 3", "== 5")})
    verified = verify_branch(
        world.fleet,
        str(world.repo),
        BranchRequest(ref=branch, base=world.base),
        VerifyOptions(pytest=QUICK, runs=1),
        CleanRoomOptions(),
        cache=None,
        on_receipt=lambda receipt: None,
    )
    trace = tmp_path / "trace"
    data: Any = encode(verified.receipts[0])
    data["rerun"] |= {"pytest": ["touch", str(trace)], "args": ["--deselect=x"], "program": str(trace)}
    options = VerifyOptions(pytest=QUICK, program="till")
    recheck = recheck_receipt(world.fleet, str(world.repo), "r.json", data, CleanRoomOptions(), options)
    assert not trace.exists()
    assert recheck.after.verdict == verified.receipts[0].verdict == "refuted"
    assert [line.partition(",")[0] for line in recheck.differences] == [
        f"pytest: the receipt has 'touch {trace}'",
        "pytest arguments: the receipt has '--deselect=x'",
        f"program: the receipt has '{trace}'",
    ]


@pytest.mark.parametrize("forged", [{"runs": 0}, {"level": "none"}])
def test_a_receipt_that_asks_for_no_check_is_refused(world: World, forged: dict[str, object]) -> None:
    branch = commit_edit(world, "Count wrong", {"tests/test_till.py": TEST.replace("== 3", "== 5")})
    receipt = verify_commit(world, branch)
    data: Any = encode(receipt)
    with pytest.raises(MngrError, match=r"r\.json is not a receipt: it has"):
        recheck_receipt(
            world.fleet, str(world.repo), "r.json", data | forged, CleanRoomOptions(), VerifyOptions(pytest=QUICK)
        )


def make_run(outcome: str, why: str = "") -> TestRun:
    return TestRun(test="t", outcome=outcome, why=why, seconds=1.0, exit_code=0, command="pytest t")


def test_flaky_tests_are_recorded_with_their_rate_and_suspects(tmp_path: Path) -> None:
    flaky = FlakyTestFile(Home(str(tmp_path / "home")), str(tmp_path))
    steady = [[make_run("pass"), make_run("pass")], [make_run("fail"), make_run("fail")]]
    assert flaky.add_runs(steady, {}) == [] and flaky.read() == {}
    failed_run = make_run("fail", "OSError: [Errno 98] Address already in use")
    (recorded,) = flaky.add_runs([[make_run("pass"), failed_run]], {"t": "server.bind(('', 80))"})
    assert (recorded.rate, recorded.suspects) == (0.5, ["port"])
    flaky.add_runs(steady, {})
    updated = flaky.read()["t"]
    assert (updated.rate, updated.first_seen) == (0.25, recorded.first_seen) and "in use" in updated.why
    assert list_suspects([make_run("timeout", "it did not end within 3 s")], "") == ["time"]
    assert flaky.delete_rows() == ["t"] and flaky.read() == {}


def test_cache_entries_unused_for_a_month_are_deleted(tmp_path: Path) -> None:
    cache = ResultCache(str(tmp_path), "some")
    cache.put("old", 1)
    cache.put("new", 2)
    (old,) = [path for path in tmp_path.glob("some/*.json") if path.read_text() == "1"]
    os.utime(old, (0, 0))
    cache = ResultCache(str(tmp_path), "some")
    assert (cache.find("old"), cache.find("new")) == (None, 2)
