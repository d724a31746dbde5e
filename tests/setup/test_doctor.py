"""Tests `mngr doctor` as a user runs it, and how it evaluates facts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from mngr.setup.doctor import check_clock, check_host, check_programs
from tests.conftest import MngrProgram
from tests.support.hosts.boxes import Boxes
from tests.support.hosts.modal.server import python

PROGRAMS = (
    "sh",
    "git",
    "tmux",
    "tar",
    "awk",
    "date",
    "find",
    "python3",
    "uname",
    "df",
    "dirname",
    "infocmp",
    "grep",
    "env",
    "bwrap",
)


def run_doctor(mngr: MngrProgram, *words: str, code: int = 0, **options: Any) -> dict[str, dict[str, Any]]:
    """Return the checks of `mngr doctor` by name."""
    return {check["name"]: check for check in mngr.run_json("doctor", *words, code=code, **options)["checks"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A directory with only the programs that mngr needs, to be used as PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        program = shutil.which(name)
        assert program is not None, name
        (folder / name).symlink_to(program)
    write_installer(folder, "apt-get")
    return folder


def write_installer(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\nexit 1\n")
    (folder / name).chmod(0o755)


def test_a_complete_machine_passes_all_checks(mngr: MngrProgram, path: Path) -> None:
    checks = run_doctor(mngr, env={"PATH": str(path)})
    problems = {name: check["status"] for name, check in checks.items() if check["status"] != "ok"}
    assert problems == {"project": "info", "coding agents": "warning", "containers": "info"}
    assert set(checks) >= {
        "git",
        "tmux",
        "tar",
        "disk",
        "inodes",
        "terminfo",
        "tmux server",
        "home",
        "settings",
    }
    assert checks["home"]["found"] == f"{mngr.home} (does not exist yet)"
    assert not mngr.home.exists()
    assert "tmux 3." in mngr("doctor").out


@pytest.mark.parametrize(
    ("program", "package"),
    [("git", "git"), ("tmux", "tmux"), ("tar", "tar"), ("awk", "mawk"), ("find", "findutils")],
)
def test_a_missing_program_is_reported_with_its_install_command(
    mngr: MngrProgram, path: Path, program: str, package: str
) -> None:
    (path / program).unlink()
    result = mngr("doctor", env={"PATH": str(path)}, code=1)
    assert f"{program} is not installed\n" in result.out
    assert f"To fix {program}: apt-get install {package}\n" in result.out
    assert f"1 check failed: {program}" in result.err
    assert f"Hint: apt-get install {package}" in result.err


def test_a_program_that_is_too_old_is_reported(mngr: MngrProgram, path: Path) -> None:
    (path / "tmux").unlink()
    (path / "tmux").write_text("#!/bin/sh\necho tmux 3.1c\n")
    (path / "tmux").chmod(0o755)
    tmux_check = run_doctor(mngr, env={"PATH": str(path)}, code=1)["tmux"]
    assert (tmux_check["status"], tmux_check["problem"]) == ("error", "tmux 3.1c is too old; mngr needs 3.2 or newer")
    facts = {"program.python3": "/usr/bin/python3", "version.python3": "Python 3.8.10"}
    (required,) = check_programs(facts, ("python3",))
    assert (required.status, required.problem) == ("error", "Python 3.8.10 is too old; mngr needs 3.9 or newer")
    statuses = {check.name: check.status for check in check_host(facts, "/home")}
    assert statuses["python3"] == "warning"  # Only some agent kinds need it.


def test_doctor_checks_the_programs_that_a_kind_needs(mngr: MngrProgram, path: Path) -> None:
    assert list(run_doctor(mngr, "command", env={"PATH": str(path)})) == ["git", "tmux", "tar", "awk", "find"]
    (path / "python3").unlink()
    checks = run_doctor(mngr, env={"PATH": str(path)})
    assert [name for name, check in checks.items() if check["status"] == "warning"] == ["python3", "coding agents"]
    assert run_doctor(mngr, "player", env={"PATH": str(path)}, code=1)["python3"]["status"] == "error"


def test_doctor_checks_a_host_by_its_address(mngr: MngrProgram, path: Path) -> None:
    checks = run_doctor(mngr, "@local", env={"PATH": str(path)})
    assert "settings" not in checks
    assert checks["clock"]["found"] == "agrees with this machine's clock"
    assert checks["locks"]["found"] == "mngr uses links as locks, because flock is not installed"
    assert checks["home"]["found"] == str(mngr.home)
    flock = shutil.which("flock")
    assert flock is not None
    (path / "flock").symlink_to(flock)
    assert run_doctor(mngr, "@local", env={"PATH": str(path)})["locks"]["found"] == str(path / "flock")
    stderr = mngr("doctor", "nosuch", code=1).err
    assert "there is no agent kind 'nosuch'" in stderr and "mngr doctor @nosuch" in stderr
    assert "does not name a host" in mngr("doctor", "@.local", code=2).err


def test_a_plugins_host_has_its_own_home(mngr: MngrProgram, example_plugin: Path) -> None:
    mngr.env["PYTHONPATH"] = str(example_plugin)
    mngr("create", "foo@box.scratch", "--", "true")
    host_home = mngr.home / "scratch" / "box"
    assert run_doctor(mngr, "@box.scratch")["home"]["found"] == str(host_home)
    assert run_doctor(mngr, "@box")["tmux server"]["found"] == "answers, sessions: 1"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("apk", "apk add gawk"),
        ("dnf", "dnf install gawk"),
        ("brew", "brew install gawk"),
        ("pacman", "pacman -S gawk"),
        (None, "install gawk with your package manager"),
    ],
)
def test_install_hints_use_the_installed_package_manager(
    mngr: MngrProgram, path: Path, name: str | None, advice: str
) -> None:
    (path / "awk").unlink()
    (path / "apt-get").unlink()
    if name:
        write_installer(path, name)
    assert run_doctor(mngr, "@local", env={"PATH": str(path)}, code=1)["awk"]["hint"] == advice


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ("1000", None),
        ("1003", None),
        ("998", None),
        ("1010", "the host's clock is 9s ahead of this machine's clock"),
        ("4700", "the host's clock is 1h ahead of this machine's clock"),
        ("900", "the host's clock is 1m behind this machine's clock"),
        (None, "the host does not report its time"),
        ("soon", "the host does not report its time"),
    ],
)
def test_a_clock_that_differs_is_reported(told: str | None, problem: str | None) -> None:
    check = check_clock({} if told is None else {"clock": told}, 1000.5, 1001.0)
    assert (check.problem is None) == (problem is None)
    assert (check.problem or "").startswith(problem or "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[project\n", "is not valid TOML"),
        ("[project]\nsetpu = 'x'\n", "there is no setting 'project.setpu'"),
        ("[commands.create]\ncuont = 3\n", "mngr create has no option 'cuont'"),
        ("[commands.crate]\ncount = 3\n", "mngr has no command 'crate'"),
        ("[templates.t]\ncount = 'many'\n", "--count needs a whole number"),
    ],
)
def test_invalid_settings_are_reported(mngr: MngrProgram, text: str, problem: str) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text(text)
    check = run_doctor(mngr, code=1)["settings"]
    assert check["status"] == "error"
    assert problem in check["problem"]
    assert check["hint"]


def test_a_home_that_belongs_to_another_program_is_an_error(mngr: MngrProgram) -> None:
    mngr.home.mkdir()
    (mngr.home / "thesis.tex").write_text("")
    check = run_doctor(mngr, code=1)["home"]
    assert "belongs to another program" in check["problem"]
    assert os.listdir(mngr.home) == ["thesis.tex"]


def test_doctor_asks_the_tmux_server_of_the_home(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    assert run_doctor(mngr)["tmux server"]["found"] == "answers, sessions: 1"


def test_a_tmux_server_that_died_with_its_agents_is_reported(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr.run_tmux("kill-server")
    check = run_doctor(mngr)["tmux server"]
    assert check["status"] == "warning"
    assert "does not answer" in check["problem"]
    assert "mngr start" in check["hint"]


def test_a_broken_plugin_does_not_stop_doctor(mngr: MngrProgram, tmp_path: Path) -> None:
    info = tmp_path / "site/broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[mngr]\nbroken = no_such_module_at_all\n")
    check = run_doctor(mngr, env={"PYTHONPATH": str(tmp_path / "site")}, code=1)["plugin broken"]
    assert "No module named 'no_such_module_at_all'" in check["problem"]
    assert "pip uninstall broken" in check["hint"]


FACTS = {
    "system": "Linux",
    "writable": "yes",
    "terminfo": "yes",
    "free.kb": "99999999",
    "free.inodes": "99999",
    "program.python3": "/p",
    "program.sshd": "/p",
}


@pytest.mark.parametrize(
    ("change", "name", "status"),
    [
        ({"free.kb": "900000"}, "disk", "warning"),
        ({"free.kb": "1000"}, "disk", "error"),
        ({"free.inodes": "9000"}, "inodes", "warning"),
        ({"free.inodes": "10"}, "inodes", "error"),
        ({"free.inodes": None}, "inodes", "ok"),
        ({"writable": None}, "writable", "error"),
        ({"terminfo": None}, "terminfo", "warning"),
        ({"stranger": "/tmp/mngr-0"}, "tmux server", "error"),
    ],
)
def test_check_host_evaluates_facts(change: dict[str, str | None], name: str, status: str) -> None:
    facts = {key: value for key, value in {**FACTS, **change}.items() if value is not None}
    checks = {check.name: check for check in check_host(facts, "/home")}
    assert checks[name].status == status
    assert [check.name for check in check_host(FACTS, "/home") if check.status != "ok"] == []


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("tmux 3.2", "ok"),
        ("tmux 3.3a", "ok"),
        ("tmux next-3.6", "ok"),
        ("tmux master", "ok"),
        ("tmux 4.0", "ok"),
        ("tmux 3.1c", "error"),
        ("tmux 2.9", "error"),
    ],
)
def test_check_programs_parses_all_tmux_versions(said: str, status: str) -> None:
    assert check_programs({"program.tmux": "/t", "version.tmux": said}, ("tmux",))[0].status == status


def test_install_hints_on_macos_use_brew() -> None:
    checks = check_programs({"system": "Darwin"}, ("tmux", "python3", "tar"))
    assert [check.hint for check in checks] == [
        "brew install tmux",
        "brew install python",
        "brew install gnu-tar",
    ]


def test_a_tmux_server_that_ended_with_its_last_agent_is_ok(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("stop", "foo")
    check = run_doctor(mngr)["tmux server"]
    assert (check["status"], check["found"]) == ("ok", "not running; the first agent starts it")


@pytest.mark.hosts
def test_doctor_checks_a_provider(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr.env.update(Boxes(tmp_path / "engine").env)
    assert "the provider answers" in mngr("doctor", "@.box").out
    mngr.env["MODAL_SERVER_URL"] = "http://127.0.0.1:1"
    mngr.env["MNGR__PROVIDERS__MODAL__PYTHON"] = str(python())
    result = mngr("doctor", "@.modal", code=1)
    assert "Modal cannot be reached: 127.0.0.1:1" in result.out + result.err
    result = mngr("doctor", "@.modal", "-S", "providers.modal.cpus=lots", code=1)
    assert "[providers.modal] cpus must be a number that is 0 or more, not 'lots'" in result.out + result.err
    assert not (mngr.home / "agents").exists()  # Doctor changes nothing.
