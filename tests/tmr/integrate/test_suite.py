"""The suite at several commits: each run uses that commit's code and nothing that another commit's tests wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from mngr.tmr.integrate.suite import Suite
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.run_plan import RunPlan
from tests.tmr.world import PYTEST, World, new_world

TEST = "from shop import COIN\n\n\ndef test_coin():\n    assert COIN == 'EUR'\n"
# Each attack is the body of a test that passes and wants the test of the next commit to pass as well.
PROBE_ATTACK = """
    import glob, importlib.util, marshal, os, sys
    probe = sys.modules["mngr_probe"].__file__
    with open(probe) as file:
        text = file.read().replace("else report.outcome", "else 'passed'")
    assert "else 'passed'" in text
    stat = os.stat(probe)
    header = importlib.util.MAGIC_NUMBER + bytes(4)
    header += int(stat.st_mtime).to_bytes(4, "little") + stat.st_size.to_bytes(4, "little")
    folder = os.path.join(os.path.dirname(probe), "__pycache__")
    for path in {*glob.glob(f"{folder}/*.pyc"), importlib.util.cache_from_source(probe)}:
        try:
            with open(path, "wb") as file:
                file.write(header + marshal.dumps(compile(text, probe, "exec")))
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


def test_two_versions_with_the_same_size_and_second_are_distinguished(tmp_path: Path) -> None:
    with new_world(tmp_path, {"shop.py": "COIN = 'EUR'\n", "tests/test_shop.py": TEST}) as world:
        commits = {"pass": world.base, "fail": world.write({"shop.py": "COIN = 'USD'\n"})}
        with open_suite(world) as suite:
            for _ in range(3):
                for outcome, commit in commits.items():
                    assert suite.rerun_all(commit).outcomes == {"tests/test_shop.py::test_coin": outcome}


@pytest.mark.parametrize("attack", [PROBE_ATTACK, BYTECODE_ATTACK], ids=["probe", "bytecode"])
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


@pytest.mark.parametrize("attack", [PROBE_ATTACK, BYTECODE_ATTACK, ENVIRONMENT_ATTACK])
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
