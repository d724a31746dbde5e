"""Baseline, clusters and receipts on one project with known troubles."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.program import commit_file, run_git
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.test_run import TestFunction, TestRun, run_test
from mngr.tmr.prepare.baseline import BaselineRuns, run_baseline
from mngr.tmr.prepare.root_causes import compute_signature, group_failures
from mngr.tmr.verify.request import VerifyOptions, VerifyRequest
from mngr.tmr.verify.verify import verify
from tests.tmr.world import BARE, PYTEST, World, new_world

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
    with new_world(tmp_path_factory.mktemp("baseline"), FILES) as made:
        yield made


@pytest.fixture(scope="module")
def failed(world: World) -> dict[str, TestRun]:
    """Every failed test of two files, run in two processes and told apart."""
    found: dict[str, TestRun] = {}
    for file in ("tests/test_one_line.py", "tests/test_others.py"):
        run = run_test(world.room, PYTEST, TestFunction(id=file, ids=[], path=file, name=file))
        for failure in run.failures:
            test = failure.id.partition("[")[0]
            outcome = "fail" if failure.when == "call" else "error"
            found[test] = run.replace(test=test, outcome=outcome, failures=[failure])
    return found


def rooms_of(world: World, run: str, at_once: int = 2) -> CleanRoomPool:
    return CleanRoomPool(world.fleet, run, str(world.repo), env=BARE, at_once=at_once)


def test_twelve_tests_broken_by_one_line_are_one_cause(failed: dict[str, TestRun]) -> None:
    first = group_failures(failed)[0]
    assert (first.shared, len(first.tests), first.signature.kind) == (True, 2, "fixture")
    (one,) = [cluster for cluster in group_failures(failed) if len(cluster.tests) == 12]
    assert one.shared and one.signature.exception == "ValueError"
    assert one.signature.frame == "shop/__init__.py:11 parse"
    assert one.title == "ValueError in shop/__init__.py:11 parse: bad value '…' at HEX"
    assert {test.partition("::")[0] for test in one.tests} == {"tests/test_one_line.py"}


def test_what_only_looks_alike_stays_apart(failed: dict[str, TestRun]) -> None:
    of = {test.rpartition("::")[2]: cluster for cluster in group_failures(failed) for test in cluster.tests}
    assert of["test_city"].tests != of["test_street"].tests  # one line, two missing keys
    assert of["test_wrong_sum"].tests != of["test_wrong_product"].tests
    assert not of["test_wrong_sum"].shared and not of["test_city"].shared


def test_a_fixture_and_a_program_are_shared_causes(failed: dict[str, TestRun]) -> None:
    of = {test.rpartition("::")[2]: cluster for cluster in group_failures(failed) for test in cluster.tests}
    stock = of["test_stock_here"]
    assert stock == of["test_stock_there"] and stock.signature.kind == "fixture"
    assert stock.signature.frame.startswith("tests/conftest.py:") and "FileNotFoundError" in stock.title
    program = of["test_cli"]
    assert program == of["test_cli_too"] and program.signature.kind == "program"
    assert program.signature.exception == "KeyError" and "shop/__init__.py:3 price" in program.signature.frame


def test_a_session_shows_what_its_program_said(world: World, tmp_path: Path) -> None:
    runs = {}
    for name in ("test_list", "test_show"):
        plugin = ["-p", "mngr.e2e.plugin"]
        runs[name] = run_test(world.room, PYTEST, world.test(name), args=plugin, keep=str(tmp_path / name))
    (one,) = group_failures(runs)
    assert (one.shared, one.signature.kind) == (True, "program")
    assert one.title == "exit code 3 in sh: shop: shelf HEX is empty"
    show = runs["test_show"]
    ((test, text),) = show.transcripts.items()
    assert test == show.test and "# look\n$ sh shop.sh show\n! shop: shelf 0x" in text and text.endswith("? 3\n")
    (place,) = (tmp_path / "test_show").iterdir()
    assert sorted(path.name for path in place.iterdir()) == ["meta.json", "transcript.txt"]


def test_a_signature_does_not_change_with_the_room_or_the_run(world: World, failed: dict[str, TestRun]) -> None:
    with rooms_of(world, "another").acquire(world.base) as room:
        again = run_test(room, PYTEST, world.test("test_total_0"))
    assert compute_signature(again) == compute_signature(failed[again.test])


def test_baseline_tells_pass_fail_flaky_and_skip(world: World) -> None:
    tests = [world.test(name) for name in ("test_good", "test_bad", "test_flips", "test_skips")]
    seen: list[tuple[str, int]] = []
    found = run_baseline(
        rooms_of(world, "base"),
        world.base,
        tests,
        PYTEST,
        done=lambda test, number, run: seen.append((test.name, number)),
    )
    assert [(one.test.name, one.verdict) for one in found] == [
        ("test_good", "pass"),
        ("test_bad", "fail"),
        ("test_flips", "flaky"),
        ("test_skips", "skip"),
    ]
    assert sorted(seen) == sorted((test.name, number) for test in tests for number in (0, 1))
    assert found[0].failing_run is None and found[2].failing_run is not None
    assert {agent.name for agent in world.fleet.list().agents} == {world.room.name} and world.graves() == []

    known = {one.test.id: one.runs for one in found if one.test.name != "test_good"}
    known[tests[0].id] = found[0].runs[:1]
    rest: list[BaselineRuns] = []
    seen.clear()
    rest = run_baseline(
        rooms_of(world, "base"),
        world.base,
        tests,
        PYTEST,
        known=known,
        done=lambda test, number, run: seen.append((test.name, number)),
    )
    assert seen == [("test_good", 1)]  # what is known is not run again
    assert [one.verdict for one in rest] == [one.verdict for one in found]


def test_the_longest_come_first_and_a_stop_is_a_stop(world: World) -> None:
    tests = [world.test(name) for name in ("test_good", "test_bad", "test_skips")]
    order: list[str] = []
    stop = threading.Event()

    def note(test: TestFunction, number: int, run: TestRun) -> None:
        order.append(test.name)
        if len(order) == 2:
            stop.set()

    durations = {tests[0].id: 1.0, tests[1].id: 3.0, tests[2].id: 2.0}
    found = run_baseline(
        rooms_of(world, "order", 1), world.base, tests, PYTEST, k=1, durations=durations, done=note, stop=stop
    )
    assert order == ["test_bad", "test_skips"]
    assert [one.test.name for one in found] == ["test_bad", "test_skips"]


def test_who_breaks_every_room_is_the_only_one_to_fail(world: World) -> None:
    tests = [world.test("test_kills"), world.test("test_good")]
    found = run_baseline(rooms_of(world, "broken", 1), world.base, tests, PYTEST, k=1)
    assert [(one.test.name, one.verdict) for one in found] == [("test_kills", "fail"), ("test_good", "pass")]
    (run,) = found[0].runs
    assert run.outcome == "crash" and run.why.startswith("it breaks the room that it runs in: ")


def test_receipts(world: World) -> None:
    """A repair that holds, one that leaves a witness broken, a lie, and a test made to be skipped."""
    rooms = rooms_of(world, "receipt")
    test, witness = world.test("test_total_1"), world.test("test_total_2")
    # What agents claim is in the run's own repository only, and brings no settings along.
    claims = world.repo / ".mngr/runs/r/repo.git"
    run_git(world.repo, "init", "-q", "--bare", str(claims))
    agent = world.root / "agent"
    run_git(world.root, "clone", "-q", str(world.repo), str(agent))
    (agent / ".mngr/settings.toml").write_text('[project]\nsetup = "exit 1"\n')
    raises = 'raise ValueError(f"bad value {value!r} at {hex(id(value))}")'
    honest = commit_file(agent, "shop/__init__.py", textwrap.dedent(SHOP.replace(raises, "return int(value)")))
    run_git(agent, "push", "-q", str(claims), "HEAD:refs/mngr/runs/r/task")
    partly = world.write(
        {"shop/__init__.py": SHOP.replace("raise", "if value == '1':\n            return 1\n        raise")}
    )
    skipped = world.write(
        {
            "tests/test_one_line.py": "from pytest import mark\npytestmark = mark.skip('no')\n"
            + FILES["tests/test_one_line.py"]
        }
    )

    once = VerifyOptions(pytest=PYTEST, runs=1, trusts_setup=True)

    def claim(commit: str, **more: Any) -> VerifyRequest:
        return VerifyRequest(test=test, commit=commit, base=world.base, **more)

    good = verify(
        rooms,
        claim(honest, affected_tests=[witness]),
        VerifyOptions(pytest=PYTEST, runs=2, trusts_setup=True),
        source=str(claims),
    )
    assert (good.verdict, good.reason) == ("confirmed", "it passed 2 of 2 times, and so did its witness"), good
    assert [row["outcome"] for row in good.results] == ["pass", "pass"]
    assert [(row["test"], row["outcome"]) for row in good.witnesses] == [(witness.id, "pass")]
    assert good.commit == honest and good.tree and good.command == [*PYTEST, test.id]
    assert good.imported_from == {"shop": "shop/__init__.py"}
    assert good.to_dict()["verdict"] == "confirmed"

    half = verify(rooms, claim(partly, affected_tests=[witness]), once)
    assert half.verdict == "refuted" and half.reason.startswith(f"the witness {witness.id} does not pass: ValueError")
    lie = verify(rooms, claim(world.base), once)
    assert lie.verdict == "refuted" and "ValueError: bad value '1'" in lie.reason
    silent = verify(rooms, claim(skipped), once)
    assert (silent.verdict, silent.reason) == ("refuted", "it was skipped when it was run: Skipped: no")


def test_what_cannot_be_run_is_unverified(world: World) -> None:
    rooms = rooms_of(world, "unverified")
    gone = verify(
        rooms,
        VerifyRequest(test=world.test("test_good"), commit="0" * 40, base=world.base),
        VerifyOptions(pytest=PYTEST, runs=1),
    )
    assert gone.verdict == "unverified" and "could not be run" in gone.reason
    line = 'PYTHONPATH="$0:$PYTHONPATH" PYTHONSAFEPATH=1 exec "$@"'
    astray = ["sh", "-c", line, str(world.repo), *PYTEST, "-o", "pythonpath=tests"]
    wrong = verify(
        rooms,
        VerifyRequest(test=world.test("test_total_1"), commit=world.base, base=world.base),
        VerifyOptions(pytest=astray, runs=1),
    )
    assert wrong.verdict == "unverified"
    assert wrong.reason == f"wrong code under test: shop came from {world.repo}/shop/__init__.py"
    assert rooms.remove_leftovers() == [] and world.graves() == []


def test_a_flaky_repair_is_called_so(world: World) -> None:
    flips = verify(
        rooms_of(world, "flaky", 1),
        VerifyRequest(test=world.test("test_flips"), commit=world.base, base=world.base),
        VerifyOptions(pytest=PYTEST, runs=2),
    )
    assert flips.verdict == "flaky" and flips.reason.startswith("it passed 1 of 2 times")
