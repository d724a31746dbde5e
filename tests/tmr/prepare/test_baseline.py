"""Tests the baseline, root causes and receipts on one project with known failures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mngr.base.json_structs import decode, encode
from mngr.testkit.contract.mngr_program import commit_file, run_git
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.prepare.baseline import BaselinePlan, BaselineRuns, run_baseline
from mngr.tmr.prepare.root_causes import compute_signature, group_failures
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from mngr.tmr.runners.test_run import TestFunction, TestRun
from mngr.tmr.verify.receipt import Receipt
from mngr.tmr.verify.verify import verify
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest
from tests.tmr.world import BARE, PYTEST, World, new_world

RUNNER = PytestRunner(PytestOptions(pytest=PYTEST))

pytestmark = pytest.mark.agents

SHOP = """
    def price(table, name):
        return int(table[name])


    def total(values):
        return sum(parse(value) for value in values)


    def parse(value):
        raise ValueError(f"bad value {value!r} at {hex(id(value))}")


    def lookup(table):
        return table["city"] if "zip" in table else table["street"]
    """
FILES = {
    "shop/__init__.py": SHOP,
    "shop/cli.py": """
        import sys

        from shop import price

        print(price({"apple": "3"}, sys.argv[1]))
        """,
    "tests/conftest.py": """
        import pytest


        @pytest.fixture
        def stock():
            return open("/nowhere/stock.txt").read()
        """,
    "tests/helpers.py": "def check(done):\n    assert done.returncode == 0, done.stderr\n",
    "tests/test_one_line.py": "from shop import total\n"
    + "".join(f"\ndef test_total_{n}():\n    x = {n}\n    assert total(['{n}']) == x\n" for n in range(12)),
    "tests/test_others.py": """
        import os
        import subprocess
        import sys

        import pytest
        from helpers import check

        from shop import lookup


        def test_city():
            lookup({"zip": 1})


        def test_street():
            lookup({})


        def test_stock_here(stock):
            pass


        def test_stock_there(stock):
            pass


        def test_wrong_sum():
            assert 1 + 1 == 3


        def test_wrong_product():
            assert 2 * 2 == 3


        @pytest.mark.parametrize("name", ["pear", "plum"])
        def test_cli(name):
            check(subprocess.run([sys.executable, "-m", "shop.cli", "pear"], capture_output=True, text=True))


        def test_cli_too():
            done = subprocess.run([sys.executable, "-m", "shop.cli", "pear"], capture_output=True, text=True)
            assert done.returncode == 0, f"it said: {done.stderr}"
        """,
    "shop.sh": 'echo "shop: shelf 0x$$ is empty" >&2\nexit 3\n',
    "tests/test_session.py": """
        import os

        from mngr.e2e import expect


        def test_list(e2e):
            expect(e2e.run(f"sh {os.getcwd()}/shop.sh list")).to_succeed()


        def test_show(e2e):
            assert os.path.exists(".venv/made")
            expect(e2e.run(f"sh {os.getcwd()}/shop.sh show", comment="look")).to_succeed()
        """,
    "tests/test_verdicts.py": """
        import os

        from pytest import skip


        def test_good():
            pass


        def test_bad():
            assert not os.environ


        def test_flips():
            place = os.path.expanduser("~/flips")
            with open(place, "a") as file:
                file.write("x")
            assert os.path.getsize(place) % 2


        def test_skips():
            skip("later")


        def test_kills():
            os.kill(os.getppid(), 9)
        """,
    ".mngr/settings.toml": '[project]\nsetup = "mkdir -p .venv && touch .venv/made"\n',
    "pytest.ini": "[pytest]\naddopts = -p no:cacheprovider\npythonpath = tests .\n",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with new_world(tmp_path_factory.mktemp("baseline"), FILES) as world:
        yield world


@pytest.fixture(scope="module")
def failed(world: World) -> dict[str, TestRun]:
    """Return every failed test of two files; each file runs once and its failures are separated."""
    runs_by_test: dict[str, TestRun] = {}
    for file in ("tests/test_one_line.py", "tests/test_others.py"):
        run = RUNNER.run_test(world.room, TestFunction(id=file, ids=[], path=file, name=file))
        for failure in run.failures:
            test = failure.id.partition("[")[0]
            outcome = "fail" if failure.when == "call" else "error"
            runs_by_test[test] = run.replace(test=test, outcome=outcome, failures=[failure])
    return runs_by_test


_POOLS: list[CleanRoomPool] = []


@pytest.fixture(autouse=True)
def close_pools() -> Iterator[None]:
    """Close the pools of a test after it."""
    yield
    while _POOLS:
        _POOLS.pop().close()


def make_pool(world: World, run: str, at_once: int = 2) -> CleanRoomPool:
    rooms = CleanRoomPool(world.fleet, run, str(world.repo), CleanRoomOptions(env=BARE), at_once=at_once)
    _POOLS.append(rooms)
    return rooms


def test_twelve_tests_broken_by_one_line_share_one_root_cause(failed: dict[str, TestRun]) -> None:
    first = group_failures(failed)[0]
    assert (first.is_shared, len(first.tests), first.signature.kind) == (True, 2, "fixture")
    (large,) = [root_cause for root_cause in group_failures(failed) if len(root_cause.tests) == 12]
    assert large.is_shared and large.signature.exception == "ValueError"
    assert large.signature.frame == "shop/__init__.py:11 parse"
    assert large.title == "ValueError in shop/__init__.py:11 parse: bad value '…' at HEX"
    assert {test.partition("::")[0] for test in large.tests} == {"tests/test_one_line.py"}


def test_failures_that_only_look_alike_are_not_grouped(failed: dict[str, TestRun]) -> None:
    root_causes = {
        test.rpartition("::")[2]: root_cause for root_cause in group_failures(failed) for test in root_cause.tests
    }
    assert (
        root_causes["test_city"].tests != root_causes["test_street"].tests
    )  # one line raises for two different missing keys
    assert root_causes["test_wrong_sum"].tests != root_causes["test_wrong_product"].tests
    assert not root_causes["test_wrong_sum"].is_shared and not root_causes["test_city"].is_shared


def test_a_broken_fixture_and_a_failing_program_are_shared_root_causes(failed: dict[str, TestRun]) -> None:
    root_causes = {
        test.rpartition("::")[2]: root_cause for root_cause in group_failures(failed) for test in root_cause.tests
    }
    stock = root_causes["test_stock_here"]
    assert stock == root_causes["test_stock_there"] and stock.signature.kind == "fixture"
    assert stock.signature.frame.startswith("tests/conftest.py:") and "FileNotFoundError" in stock.title
    program = root_causes["test_cli"]
    assert program == root_causes["test_cli_too"] and program.signature.kind == "program"
    assert program.signature.exception == "KeyError" and "shop/__init__.py:3 price" in program.signature.frame


def test_an_e2e_session_is_grouped_by_its_programs_error_and_keeps_the_transcript(world: World, tmp_path: Path) -> None:
    runs = {}
    for name in ("test_list", "test_show"):
        runner = PytestRunner(PytestOptions(pytest=PYTEST, args=["-p", "mngr.e2e.plugin"]))
        runs[name] = runner.run_test(world.room, world.test(name), artifacts_dir=str(tmp_path / name))
    (root_cause,) = group_failures(runs)
    assert (root_cause.is_shared, root_cause.signature.kind) == (True, "program")
    assert root_cause.title == "exit code 3 in sh: shop: shelf HEX is empty"
    show = runs["test_show"]
    ((test, text),) = show.transcripts.items()
    assert test == show.test and "# look\n$ sh shop.sh show\n! shop: shelf 0x" in text and text.endswith("? 3\n")
    (session_dir,) = (tmp_path / "test_show").iterdir()
    assert sorted(path.name for path in session_dir.iterdir()) == ["meta.json", "steps.jsonl", "transcript.txt"]


def test_a_signature_is_the_same_in_every_clean_room_and_run(world: World, failed: dict[str, TestRun]) -> None:
    with make_pool(world, "another").acquire(world.base) as room:
        again = RUNNER.run_test(room, world.test("test_total_0"))
    assert compute_signature(again) == compute_signature(failed[again.test])


def test_baseline_distinguishes_pass_fail_flaky_and_skip_and_repeats_no_known_run(world: World) -> None:
    tests = [world.test(name) for name in ("test_good", "test_bad", "test_flips", "test_skips")]
    finished: list[tuple[str, int]] = []
    rooms = make_pool(world, "base")
    results = run_baseline(
        rooms,
        world.base,
        RUNNER,
        BaselinePlan(tests=tests),
        on_run_end=lambda test, number, run: finished.append((test.name, number)),
    )
    assert [(result.test.name, result.verdict) for result in results] == [
        ("test_good", "pass"),
        ("test_bad", "fail"),
        ("test_flips", "flaky"),
        ("test_skips", "skip"),
    ]
    seen = {result.test.name: [run.seen for run in result.runs] for result in results}
    assert seen["test_good"] == seen["test_skips"] == ["suite", "suite"]
    assert seen["test_bad"] == ["suite", "suite", "alone"]
    assert seen["test_flips"] == ["suite", "suite", "alone", "alone"]
    assert sorted(finished) == sorted((name, number) for name, runs in seen.items() for number in range(len(runs)))
    assert results[0].failing_run is None and results[2].failing_run is not None
    rooms.close()
    assert {agent.name for agent in world.fleet.list().agents} == {world.room.name} and world.list_trash() == []

    known = {result.test.id: result.runs for result in results if result.test.name != "test_good"}
    known[tests[0].id] = results[0].runs[:1]
    repeated_results: list[BaselineRuns] = []
    finished.clear()
    repeated_results = run_baseline(
        make_pool(world, "base"),
        world.base,
        RUNNER,
        BaselinePlan(tests=tests, known_runs=known),
        on_run_end=lambda test, number, run: finished.append((test.name, number)),
    )
    assert finished == [("test_good", 1)]  # known runs are not repeated
    assert [result.verdict for result in repeated_results] == [result.verdict for result in results]


def test_a_test_that_breaks_its_clean_rooms_fails_alone(world: World) -> None:
    tests = [world.test("test_kills"), world.test("test_good")]
    results = run_baseline(make_pool(world, "broken", 1), world.base, RUNNER, BaselinePlan(tests=tests, runs=1))
    assert [(result.test.name, result.verdict) for result in results] == [("test_kills", "fail"), ("test_good", "pass")]
    run = results[0].runs[-1]
    assert (run.seen, run.outcome) == ("alone", "crash") and run.why.startswith("it breaks its clean room: ")


def test_receipts_confirm_a_repair_and_refute_partial_false_and_skipped_ones(world: World) -> None:
    """The claims: a complete repair, one that leaves an affected test broken, a lie, and a test made to be skipped."""
    rooms = make_pool(world, "receipt")
    test, affected = world.test("test_total_1"), world.test("test_total_2")
    # Claims are only in the run's own repository, and their settings must not apply.
    claims = world.repo / ".mngr/runs/r/repo.git"
    run_git(world.repo, "init", "-q", "--bare", str(claims))
    agent = world.root / "agent"
    run_git(world.root, "clone", "-q", str(world.repo), str(agent))
    (agent / ".mngr/settings.toml").write_text('[project]\nsetup = "exit 1"\n')
    raise_line = 'raise ValueError(f"bad value {value!r} at {hex(id(value))}")'
    complete_fix = commit_file(
        agent, "shop/__init__.py", textwrap.dedent(SHOP.replace(raise_line, "return int(value)"))
    )
    run_git(agent, "push", "-q", str(claims), "HEAD:refs/mngr/runs/r/task")
    partial_fix = world.write(
        {"shop/__init__.py": SHOP.replace("raise", "if value == '1':\n            return 1\n        raise")}
    )
    skipping_commit = world.write(
        {
            "tests/test_one_line.py": "from pytest import mark\npytestmark = mark.skip('no')\n"
            + FILES["tests/test_one_line.py"]
        }
    )

    options = VerifyOptions(pytest=PYTEST, runs=1, trusts_setup=True)

    def make_request(commit: str, **more: Any) -> VerifyRequest:
        return VerifyRequest(test=test, commit=commit, base=world.base, **more)

    confirmed = verify(
        rooms,
        make_request(complete_fix, source=str(claims), affected_tests=[affected]),
        VerifyOptions(pytest=PYTEST, runs=2, trusts_setup=True),
    )
    assert (confirmed.verdict, confirmed.reason) == (
        "confirmed",
        "it passed 2 of 2 times, and so did one affected test",
    ), confirmed
    assert [result.outcome for result in confirmed.results] == ["pass", "pass"]
    assert [(result.test, result.outcome) for result in confirmed.affected_tests] == [(affected.id, "pass")]
    assert confirmed.commit == complete_fix and confirmed.tree and confirmed.command == [*PYTEST, test.id]
    assert confirmed.imported_from == {"shop": "shop/__init__.py"}
    assert decode(Receipt, encode(confirmed)) == confirmed

    partial_receipt = verify(rooms, make_request(partial_fix, affected_tests=[affected]), options)
    assert partial_receipt.verdict == "refuted" and partial_receipt.reason.startswith(
        f"the affected test {affected.id} does not pass: ValueError"
    )
    false_receipt = verify(rooms, make_request(world.base), options)
    assert false_receipt.verdict == "refuted" and "ValueError: bad value '1'" in false_receipt.reason
    skipped_receipt = verify(rooms, make_request(skipping_commit), options)
    assert (skipped_receipt.verdict, skipped_receipt.reason) == (
        "refuted",
        "it was skipped when mngr ran it: Skipped: no",
    )


def test_a_missing_commit_or_foreign_code_gives_an_unverified_receipt(world: World) -> None:
    rooms = make_pool(world, "unverified")
    missing_receipt = verify(
        rooms,
        VerifyRequest(test=world.test("test_good"), commit="0" * 40, base=world.base),
        VerifyOptions(pytest=PYTEST, runs=1),
    )
    assert missing_receipt.verdict == "unverified" and "could not run it" in missing_receipt.reason
    script = 'PYTHONPATH="$0:$PYTHONPATH" PYTHONSAFEPATH=1 exec "$@"'
    wrong_pytest = ["sh", "-c", script, str(world.repo), *PYTEST, "-o", "pythonpath=tests"]
    wrong_receipt = verify(
        rooms,
        VerifyRequest(test=world.test("test_total_1"), commit=world.base, base=world.base),
        VerifyOptions(pytest=wrong_pytest, runs=1),
    )
    assert wrong_receipt.verdict == "unverified"
    assert wrong_receipt.reason == f"wrong code under test: the tests imported shop from {world.repo}/shop/__init__.py"
    rooms.close()
    assert rooms.remove_leftovers() == [] and world.list_trash() == []


def test_a_repair_that_passes_only_sometimes_gives_a_flaky_receipt(world: World) -> None:
    receipt = verify(
        make_pool(world, "flaky", 1),
        VerifyRequest(test=world.test("test_flips"), commit=world.base, base=world.base),
        VerifyOptions(pytest=PYTEST, runs=2),
    )
    assert receipt.verdict == "flaky" and receipt.reason.startswith("it passed 1 of 2 times")
