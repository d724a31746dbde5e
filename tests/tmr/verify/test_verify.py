"""Receipts: the text of an edit, runs behind walls, the proof of a fix; and nothing is run twice."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.program import run_git
from mngr.tmr.cleanroom.test_run import TestRun
from mngr.tmr.prepare.flaky import FlakyTestFile, list_suspects
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.verify.branch import compare_receipts, recheck_receipt, verify_branch
from mngr.tmr.verify.legacy.policy import DEFAULT
from mngr.tmr.verify.receipt import Receipt
from mngr.tmr.verify.request import VerifyOptions, VerifyRequest
from mngr.tmr.verify.verify import verify
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
    with new_world(tmp_path_factory.mktemp("verify"), files) as made:
        yield made


def edit(world: World, message: str, files: dict[str, str]) -> str:
    """A commit on the base, which the checkout goes back to."""
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


def check(world: World, commit: str, name: str = "test_total", **more: Any) -> Receipt:
    how = VerifyOptions(pytest=more.pop("pytest", PYTEST), runs=1)
    shelf = more.pop("shelf", None)
    claim = VerifyRequest(test=world.test(name), commit=commit, base=world.base, claim=RESULT, **more)
    return verify(world.rooms, claim, how, cache=shelf)


RESULT = {"changes": [{"kind": "FIX_IMPL"}]}


def test_a_fix_is_proven_by_a_test_that_fails_without_it_and_nothing_is_run_twice(world: World) -> None:
    fixed = edit(world, "[FIX_IMPL] One too many", {"till.py": TILL.format(more="", least="min(prices)")})
    log = world.root / "log"
    counted = ["sh", "-c", f'echo run >>{log}; exec "$0" "$@"', *PYTEST]
    shelf = ResultCache(str(world.root), "verify")
    found = check(world, fixed, pytest=counted, shelf=shelf)
    assert (found.verdict, found.all_findings) == ("confirmed", [])
    (proof,) = found.proofs
    assert (proof["before"], proof["without"], proof["is_needed"]) == ("fail", "fail", True)
    assert proof["fixes"] == [fixed] and proof["is_same_reason"] is True
    assert {"tree", "command", "environment"} <= found.hashes.keys() and found.environment["packages"]
    assert log.read_text() == "run\n" * 3  # as it is, on the base, without the fix
    assert check(world, fixed, pytest=counted, shelf=shelf) == found
    assert log.read_text() == "run\n" * 3


def test_a_fix_that_no_test_needs_is_a_finding(world: World) -> None:
    idle = edit(world, "[FIX_IMPL] Sorted", {"till.py": TILL.format(more="+ 1", least="sorted(prices)[0]")})
    found = check(world, idle, "test_cheapest")
    assert found.verdict == "confirmed"
    assert {row["rule"] for row in found.findings} == {"fix-not-needed", "never-red"}


def test_what_passes_because_it_was_made_weaker_is_refuted_with_the_line(world: World) -> None:
    weaker = edit(world, "[FIX_TEST] The sum", {"tests/test_till.py": TEST.replace("== 3", "is not None")})
    found = check(world, weaker)
    assert found.verdict == "refuted" and "tests/test_till.py:7: test_total" in found.reason
    assert [row["level"] for row in found.guard] == ["refuse"]
    assert [row["outcome"] for row in found.results] == ["pass"]


def test_what_a_kind_of_edit_may_not_touch_is_a_finding(world: World) -> None:
    files = {"till.py": TILL.format(more="", least="min(prices)"), "conftest.py": "import till\n"}
    found = check(world, edit(world, "[FIX_TEST] All of it", files))
    assert found.verdict == "refuted"
    refused = {(row["rule"], row["path"]) for row in found.policy if row["level"] == "refuse"}
    assert refused == {("policy-implementation", "till.py"), ("policy-conftest", "conftest.py")}


def test_a_claim_of_more_commits_than_can_be_looked_at_is_not_believed(world: World) -> None:
    tree = run_git(world.repo, "rev-parse", f"{world.base}^{{tree}}")
    head = world.base
    for _ in range(201):
        head = run_git(world.repo, "commit-tree", tree, "-p", head, "-m", "more")
    run_git(world.repo, "update-ref", "refs/heads/many", head)
    found = check(world, head)
    assert found.verdict == "unverified" and "more than 200 commits" in found.reason


def test_a_claim_that_changes_the_set_up_is_not_run(world: World) -> None:
    trace = world.root / "trace"
    files = {
        "conftest.py": f"open({str(trace)!r}, 'w')\n",
        ".mngr/settings.toml": f'[project]\nsetup = "touch {trace}"\n',
    }
    found = check(world, edit(world, "[FIX_IMPL] Set up", files))
    assert found.verdict == "refuted" and "it was not run: it touches .mngr/settings.toml" in found.reason
    assert not trace.exists() and found.results == []


def test_a_branch_of_somebody_else_and_its_receipt_once_more(world: World, tmp_path: Path) -> None:
    files = {
        "till.py": TILL.format(more="", least="min(prices)"),
        "tests/test_till.py": TEST.replace("== 3", "== 3\n        assert total([]) == 0"),
    }
    branch = edit(world, "Count right", files)
    before = run_git(world.repo, "count-objects")
    said: list[str] = []
    found = verify_branch(
        world.fleet, str(world.repo), branch, world.base, [], VerifyOptions(pytest=QUICK, runs=1), sandbox=None, on="", cache=None,
        on_receipt=lambda receipt: said.append(receipt.test),
    )  # fmt: skip
    assert (found.verdict, said) == ("confirmed", ["tests/test_till.py::test_total"])
    assert found.findings == []
    assert run_git(world.repo, "count-objects") == before
    data = found.receipts[0].to_dict()
    same = recheck_receipt(world.fleet, str(world.repo), "r.json", data, sandbox=None, on="", policy=DEFAULT)
    assert same.differences == []
    lie = Receipt(**data).replace(verdict="refuted", results=[{"outcome": "fail"}])
    assert compare_receipts(lie, same.after) == [
        "verdict: refuted then, confirmed now", "results: ['fail'] then, ['pass'] now",
    ]  # fmt: skip


def ran(outcome: str, why: str = "") -> TestRun:
    return TestRun(test="t", outcome=outcome, why=why, seconds=1.0, exit_code=0, command="pytest t")


def test_flaky_tests_are_kept_with_their_rate_and_suspects(tmp_path: Path) -> None:
    flaky = FlakyTestFile(str(tmp_path))
    steady = [[ran("pass"), ran("pass")], [ran("fail"), ran("fail")]]
    assert flaky.add_runs(steady, {}) == [] and flaky.read() == {}
    bad = ran("fail", "OSError: [Errno 98] Address already in use")
    (one,) = flaky.add_runs([[ran("pass"), bad]], {"t": "server.bind(('', 80))"})
    assert (one.rate, one.suspects) == (0.5, ["port"])
    flaky.add_runs(steady, {})
    kept = flaky.read()["t"]
    assert (kept.rate, kept.first_seen) == (0.25, one.first_seen) and "in use" in kept.why
    assert list_suspects([ran("timeout", "it did not end within 3 s")], "") == ["time"]
    assert flaky.delete_rows() == ["t"] and flaky.read() == {}


def test_what_nobody_asked_for_in_a_month_is_forgotten(tmp_path: Path) -> None:
    shelf = ResultCache(str(tmp_path), "some")
    shelf.put("old", 1)
    shelf.put("new", 2)
    (old,) = [path for path in tmp_path.glob(".mngr/cache/some/*.json") if path.read_text() == "1"]
    os.utime(old, (0, 0))
    shelf = ResultCache(str(tmp_path), "some")
    assert (shelf.find("old"), shelf.find("new")) == (None, 2)
