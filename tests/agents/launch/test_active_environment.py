"""Tests that the Python environment which set-up created in the work dir is active for everything an agent runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr import AgentSpec, Fleet
from tests.conftest import MngrProgram, wait_for
from tests.support.hosts.sshd import Farm

SHOW = 'echo "$VIRTUAL_ENV"; command -v python; command -v probe'
# A small virtual environment with a program of its own. Creating a real one takes seconds.
SETUP = """
mkdir -p {name}/bin
echo 'version = 3.11' >{name}/pyvenv.cfg
printf '#!/bin/sh\\n' | tee {name}/bin/python >{name}/bin/probe
chmod 755 {name}/bin/*
"""


def configure(repo: Path, setup: str) -> None:
    """Write project settings with this set-up command."""
    (repo / ".mngr").mkdir()
    (repo / ".mngr/settings.toml").write_text(f"[project]\nsetup = '''{setup}'''\n")


def list_expected(work_dir: Path, name: str = ".venv") -> list[str]:
    """Return the lines that SHOW prints when the environment of the work dir is active."""
    return [f"{work_dir}/{name}", f"{work_dir}/{name}/bin/python", f"{work_dir}/{name}/bin/probe"]


@pytest.mark.parametrize("name", [".venv", "env", ".python"])
def test_the_environment_of_the_work_dir_is_active_in_the_agent_its_windows_and_exec(
    mngr: MngrProgram, name: str
) -> None:
    configure(mngr.repo, SETUP.format(name=name))
    mngr("trust", "--yes")
    show = f"({SHOW}) >window.log; sleep 1000"
    mngr("create", "foo", "--dirty", "ignore", "-w", f"w={show}", "--", "sh", "-c", show.replace("window", "agent"))
    work_dir = mngr.get_work_dir("foo")
    expected = list_expected(work_dir, name)
    assert mngr("exec", "foo", "--", "sh", "-c", SHOW).out.splitlines() == expected
    logs = [work_dir / "agent.log", work_dir / "window.log"]
    wait_for(lambda: all(log.exists() and log.read_text().count("\n") == 3 for log in logs))
    assert [log.read_text().splitlines() for log in logs] == [expected, expected]


def test_the_environment_of_the_work_dir_is_active_in_a_sandbox(mngr: MngrProgram) -> None:
    configure(mngr.repo, SETUP.format(name=".venv"))
    mngr("trust", "--yes")
    mngr("create", "foo", "--dirty", "ignore", "--sandbox", "--", "sleep", "1000")
    expected = list_expected(mngr.get_work_dir("foo"))
    assert mngr("exec", "foo", "--", "sh", "-c", SHOW).out.splitlines() == expected
    assert mngr("exec", "foo", "--", "probe").code == 0


def test_the_environment_of_the_caller_is_not_active_in_an_agent(mngr: MngrProgram, tmp_path: Path) -> None:
    callers = tmp_path / "callers"
    (callers / "bin").mkdir(parents=True)
    caller = {"VIRTUAL_ENV": str(callers), "PYTHONHOME": "", "PATH": f"{callers}/bin:{mngr.env['PATH']}"}
    mngr("create", "foo", "--", "sleep", "1000", env=caller)
    shown = mngr("exec", "foo", "--", "sh", "-c", 'echo "$PATH"; echo "[$VIRTUAL_ENV]"', env=caller).out
    assert shown.splitlines() == [mngr.env["PATH"], "[]"]


def test_the_environment_of_the_work_dir_is_active_on_another_host(
    mngr: MngrProgram, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNGR__PROVIDERS__SSH__CONFIG", str(farm.config))
    configure(mngr.repo, SETUP.format(name=".venv"))
    mngr("trust", "--yes")
    fleet = Fleet(str(mngr.home), cwd=str(mngr.repo))
    agent = fleet.create(AgentSpec(address="foo@h1", command=["sleep", "1000"], dirty="ignore"))
    shown = fleet.exec(["foo"], ["sh", "-c", SHOW])[0].extra["stdout"]
    assert str(shown).splitlines() == list_expected(Path(agent.work_dir))
