"""The suite at several commits: each run uses that commit's code and nothing that another commit's tests wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from mngr.tmr.integrate.suite import Suite
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.run_plan import RunPlan
from tests.tmr.world import BARE, PYTEST, World, new_world

TEST = "from shop import COIN\n\n\ndef test_coin():\n    assert COIN == 'EUR'\n"
# Each attack is the body of a test that passes and wants the test of the next commit to pass as well.
OBSERVER_ATTACK = """
    import glob, importlib.util, marshal, os, sys
    observer = sys.modules["mngr_observer"].__file__
    with open(observer) as file:
        text = file.read().replace("else report.outcome", "else 'passed'")
    assert "else 'passed'" in text
    stat = os.stat(observer)
    header = importlib.util.MAGIC_NUMBER + bytes(4)
    header += int(stat.st_mtime).to_bytes(4, "little") + stat.st_size.to_bytes(4, "little")
    folder = os.path.join(os.path.dirname(observer), "__pycache__")
    for path in {*glob.glob(f"{folder}/*.pyc"), importlib.util.cache_from_source(observer)}:
        try:
            with open(path, "wb") as file:
                file.write(header + marshal.dumps(compile(text, observer, "exec")))
        except OSError:
            pass
"""
BYTECODE_ATTACK = """
    import importlib.util, marshal, os
    target = importlib.util.cache_from_source(os.path.abspath("shop.py"))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)  # never compared with the source
    with open(target, "wb") as file:
        file.write(header + marshal.dumps(compile("COIN = 'EUR'", "shop.py", "exec")))
"""
ENVIRONMENT_ATTACK = """
    import os
    try:
        os.makedirs(".venv/poison", exist_ok=True)
    except OSError:
        pass
"""


@contextmanager
def open_suite(world: World) -> Iterator[Suite]:
    """Open the suite of a world, and close it at the end."""
    plan, cache = RunPlan(base=world.base, pytest=PYTEST), ResultCache(str(world.root), "suite")
    suite = Suite(world.fleet.context.local_host, str(world.repo), plan, world.rooms, cache, {})
    try:
        yield suite
    finally:
        suite.close()


@pytest.mark.agents
def test_two_versions_with_the_same_size_and_second_are_distinguished(tmp_path: Path) -> None:
    with new_world(tmp_path, {"shop.py": "COIN = 'EUR'\n", "tests/test_shop.py": TEST}) as world:
        commits = {"pass": world.base, "fail": world.write({"shop.py": "COIN = 'USD'\n"})}
        with open_suite(world) as suite:
            for _ in range(3):
                for outcome, commit in commits.items():
                    assert suite.rerun_all(commit).outcomes == {"tests/test_shop.py::test_coin": outcome}


@pytest.mark.parametrize("attack", [OBSERVER_ATTACK, BYTECODE_ATTACK], ids=["observer", "bytecode"])
@pytest.mark.parametrize("sandbox", [CleanRoomSandbox(program="python"), None], ids=["sandbox", "none"])
def test_a_test_cannot_change_the_result_of_the_next_commit(
    tmp_path: Path, attack: str, sandbox: CleanRoomSandbox | None
) -> None:
    files = {"shop.py": "COIN = 'USD'\n", "tests/test_shop.py": TEST}
    with new_world(tmp_path, files, sandbox) as world:
        failing = world.base
        hostile = world.write({"tests/test_shop.py": f"def test_coin():{attack}\n"})
        with open_suite(world) as suite:
            assert suite.rerun_all(hostile).outcomes == {"tests/test_shop.py::test_coin": "pass"}
            assert suite.rerun_all(failing).outcomes == {"tests/test_shop.py::test_coin": "fail"}


@pytest.mark.parametrize("attack", [OBSERVER_ATTACK, BYTECODE_ATTACK, ENVIRONMENT_ATTACK])
def test_a_test_cannot_change_the_next_run_of_the_same_commit(tmp_path: Path, attack: str) -> None:
    files = {
        "shop.py": "COIN = 'USD'\n",
        "tests/test_attack.py": f"def test_attack():{attack}\n",
        "tests/test_shop.py": "import os\nfrom shop import COIN\n\n\ndef test_coin():\n"
        "    assert COIN == 'EUR' or os.path.exists('.venv/poison')\n",
        ".mngr/settings.toml": "[project]\nsetup = 'mkdir .venv; touch .venv/pyvenv.cfg'\n",
    }
    with new_world(tmp_path, files, CleanRoomSandbox(program="python")) as world:
        assert world.run("test_attack").outcome == "pass"
        assert world.run("test_coin").outcome == "fail"


# Each of the two tests needs the other one to run at the same time.
MEETING = """
    import pathlib
    import time


    def test_meets():
        place = pathlib.Path({place!r})
        (place / {own!r}).write_text("here")
        end = time.monotonic() + 60
        while not (place / {other!r}).exists():
            assert time.monotonic() < end
            time.sleep(0.02)
    """
SECONDS = {f"tests/test_{name}.py::test_meets": 10.0 for name in ("one", "two")}
ALL_PASS = dict.fromkeys(SECONDS, "pass")


@contextmanager
def open_long_suite(tmp_path: Path, files: dict[str, str]) -> Iterator[tuple[Suite, World]]:
    """Open a suite with two tests that are known to take long, and with two clean rooms."""
    place = tmp_path / "place"
    place.mkdir()
    pairs = (("one", "two"), ("two", "one"))
    meetings = {f"tests/test_{own}.py": MEETING.format(place=str(place), own=own, other=other) for own, other in pairs}
    with new_world(tmp_path, {**meetings, **files}) as world:
        rooms = CleanRoomPool(world.fleet, "long", str(world.repo), CleanRoomOptions(env=BARE), at_once=2)
        plan, cache = RunPlan(base=world.base, pytest=PYTEST), ResultCache(str(world.root), "suite")
        with contextlib.closing(
            Suite(world.fleet.context.local_host, str(world.repo), plan, rooms, cache, SECONDS)
        ) as suite:
            yield suite, world


def test_the_tests_of_a_long_suite_run_in_several_clean_rooms_at_the_same_time(tmp_path: Path) -> None:
    with open_long_suite(tmp_path, {}) as (suite, world):
        assert suite.rerun_all(world.base).outcomes == ALL_PASS
        assert suite.run_tests(world.base, SECONDS).outcomes == ALL_PASS
        assert suite.run_tests(world.base, ["tests/test_one.py", "tests/test_two.py"]).failures == {}
        processes = suite.counts["processes"]
        assert processes == 1 + 2 + 2 + 2  # once to collect the tests, and twice for each list
        suite.run_tests(world.base, SECONDS)
        assert suite.counts["processes"] == processes


def test_a_crash_or_a_broken_file_in_a_shard_is_one_failure(tmp_path: Path) -> None:
    broken = "import no_such_module\n\n\ndef test_never():\n    pass\n"
    crash = "import os\n\n\ndef test_crash():\n    os._exit(3)\n\n\ndef test_after():\n    pass\n"
    files = {"tests/test_broken.py": broken, "tests/test_three.py": crash}
    with open_long_suite(tmp_path, files) as (suite, world):
        result = suite.rerun_all(world.base)
    assert result.outcomes == {
        **ALL_PASS,
        "tests/test_broken.py": "error",
        "tests/test_three.py::test_crash": "crash",
        "tests/test_three.py::test_after": "pass",
    }


def test_a_long_suite_runs_again_in_another_clean_room_if_one_breaks(tmp_path: Path) -> None:
    once = tmp_path / "broken-once"
    breaking = f"""
        import os, pathlib

        def test_breaks():
            if not os.path.exists({str(once)!r}):
                pathlib.Path({str(once)!r}).write_text("")
                os.kill(os.getppid(), 9)
        """
    with open_long_suite(tmp_path, {"tests/test_breaks.py": breaking}) as (suite, world):
        assert suite.rerun_all(world.base).outcomes == {**ALL_PASS, "tests/test_breaks.py::test_breaks": "pass"}
        assert once.exists()
