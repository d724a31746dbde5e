"""Tests what `mngr doctor` says of coding agents, container engines and the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MngrProgram


@pytest.fixture
def programs(mngr: MngrProgram, tmp_path: Path) -> Path:
    """A directory that comes first on PATH, and a home of the user without any login."""
    folder = tmp_path / "programs"
    folder.mkdir()
    mngr.env.update(PATH=f"{folder}:{mngr.env['PATH']}", HOME=str(tmp_path / "user"))
    return folder


def write_program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def run_check(mngr: MngrProgram, name: str, **env: str) -> dict[str, Any]:
    """Return one check of `mngr doctor`."""
    return next(check for check in mngr.run_json("doctor", env=env)["checks"] if check["name"] == name)


def test_doctor_shows_the_version_of_a_coding_agent_and_asks_for_a_login(mngr: MngrProgram, programs: Path) -> None:
    write_program(programs, "claude", "echo 2.1.0")
    check = run_check(mngr, "claude")
    assert (check["status"], check["problem"]) == ("warning", "2.1.0; mngr found no login")
    assert check["hint"] == "claude /login"


def test_doctor_finds_a_login_in_a_file_or_a_variable(mngr: MngrProgram, programs: Path) -> None:
    write_program(programs, "claude", "echo 2.1.0")
    with_variable = run_check(mngr, "claude", ANTHROPIC_API_KEY="secret")
    assert with_variable["found"] == "2.1.0; login: the variable ANTHROPIC_API_KEY"
    login = Path(mngr.env["HOME"]) / ".claude/.credentials.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    assert run_check(mngr, "claude")["found"] == f"2.1.0; login: the file {login}"


def test_a_coding_agent_that_does_not_run_is_reported(mngr: MngrProgram, programs: Path) -> None:
    write_program(programs, "codex", "echo cannot load >&2; exit 1")
    check = run_check(mngr, "codex")
    assert (check["status"], check["problem"]) == ("warning", "codex --version failed: cannot load")
    assert check["hint"] == "npm install -g @openai/codex"


def test_doctor_reports_a_container_engine_that_does_not_answer(mngr: MngrProgram, programs: Path) -> None:
    write_program(programs, "docker", "echo Cannot connect to the Docker daemon >&2; exit 1")
    check = run_check(mngr, "docker")
    assert check["status"] == "warning" and "Cannot connect" in check["problem"]
    assert check["hint"] == "sudo systemctl start docker"
    write_program(programs, "docker", "echo 4f5e; echo 5f6e")
    assert run_check(mngr, "docker")["found"] == "answers; running containers: 2"


def test_doctor_says_whether_the_projects_settings_are_trusted(mngr: MngrProgram) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text("[project]\nsetup = 'true'\n[usage]\nprices = 'prices.json'\n")
    assert run_check(mngr, "project")["found"] == f"{mngr.repo}; set-up: true"
    check = run_check(mngr, "trust")
    assert (check["status"], check["hint"]) == ("warning", "mngr trust")
    assert check["problem"] == "you do not trust these settings of the project yet: project.setup"
    mngr("trust", "--yes")
    assert run_check(mngr, "trust")["found"] == "you trust the project's settings"
    assert run_check(mngr, "ignored settings")["hint"] == "mngr config set --user usage.prices VALUE"


def test_doctor_suggests_init_for_a_project_without_set_up(mngr: MngrProgram) -> None:
    check = run_check(mngr, "project")
    assert check["status"] == "info" and check["found"].endswith("to detect one: mngr init")
