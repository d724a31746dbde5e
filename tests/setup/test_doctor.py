"""`mngr doctor` from outside, and how it judges."""

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
)


def checks(mngr: MngrProgram, *words: str, code: int = 0, **more: Any) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in mngr.run_json("doctor", *words, code=code, **more)["checks"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A directory with the programs we need and no others, to be used as PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None, name
        (folder / name).symlink_to(found)
    installer(folder, "apt-get")
    return folder


def installer(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\nexit 1\n")
    (folder / name).chmod(0o755)


def test_a_machine_with_everything_is_well(mngr: MngrProgram, path: Path) -> None:
    found = checks(mngr, env={"PATH": str(path)})
    assert {check["status"] for check in found.values()} == {"ok"}
    assert set(found) >= {
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
    assert found["home"]["found"] == f"{mngr.home}, not used yet"
    assert not mngr.home.exists()
    assert "tmux 3." in mngr("doctor").out


@pytest.mark.parametrize(
    ("program", "package"),
    [("git", "git"), ("tmux", "tmux"), ("tar", "tar"), ("awk", "mawk"), ("find", "findutils")],
)
def test_a_missing_program_is_named_with_how_to_get_it(
    mngr: MngrProgram, path: Path, program: str, package: str
) -> None:
    (path / program).unlink()
    ran = mngr("doctor", env={"PATH": str(path)}, code=1)
    assert f"{program} is not installed\n" in ran.out
    assert f"to mend {program}: apt-get install {package}\n" in ran.out
    assert f"1 of 13 checks failed: {program}" in ran.err
    assert f"Hint: apt-get install {package}" in ran.err


def test_an_old_program_is_too_old(mngr: MngrProgram, path: Path) -> None:
    (path / "tmux").unlink()
    (path / "tmux").write_text("#!/bin/sh\necho tmux 3.1c\n")
    (path / "tmux").chmod(0o755)
    found = checks(mngr, env={"PATH": str(path)}, code=1)["tmux"]
    assert (found["status"], found["problem"]) == ("error", "tmux 3.1c is too old: 3.2 is needed")
    old = {"program.python3": "/usr/bin/python3", "version.python3": "Python 3.8.10"}
    (needed,) = check_programs(old, ("python3",))
    assert (needed.status, needed.problem) == ("error", "Python 3.8.10 is too old: 3.9 is needed")
    wished = {check.name: check.status for check in check_host(old, "/home")}
    assert wished["python3"] == "warning"  # nothing but some kinds of agents needs it


def test_a_kind_says_what_it_needs(mngr: MngrProgram, path: Path) -> None:
    assert list(checks(mngr, "command", env={"PATH": str(path)})) == ["git", "tmux", "tar", "awk", "find"]
    (path / "python3").unlink()
    found = checks(mngr, env={"PATH": str(path)})
    assert [name for name, check in found.items() if check["status"] == "warning"] == ["python3"]
    assert checks(mngr, "player", env={"PATH": str(path)}, code=1)["python3"]["status"] == "error"


def test_a_host_is_looked_at_by_its_address(mngr: MngrProgram, path: Path) -> None:
    found = checks(mngr, "@local", env={"PATH": str(path)})
    assert "settings" not in found
    assert found["clock"]["found"] == "in step with ours"
    assert found["locks"]["found"] == "links that name their owner; there is no flock"
    assert found["home"]["found"] == str(mngr.home)
    flock = shutil.which("flock")
    assert flock is not None
    (path / "flock").symlink_to(flock)
    assert checks(mngr, "@local", env={"PATH": str(path)})["locks"]["found"] == str(path / "flock")
    said = mngr("doctor", "nosuch", code=1).err
    assert "there is no agent kind 'nosuch'" in said and "mngr doctor @nosuch" in said
    assert "names no host" in mngr("doctor", "@.local", code=2).err


def test_a_host_of_a_plugin_has_a_home_of_its_own(mngr: MngrProgram, example_plugin: Path) -> None:
    mngr.env["PYTHONPATH"] = str(example_plugin)
    mngr("create", "foo@box.scratch", "--", "true")
    place = mngr.home / "scratch" / "box"
    assert checks(mngr, "@box.scratch")["home"]["found"] == str(place)
    assert checks(mngr, "@box")["tmux server"]["found"] == "answers, sessions: 1"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("apk", "apk add gawk"),
        ("dnf", "dnf install gawk"),
        ("brew", "brew install gawk"),
        ("pacman", "pacman -S gawk"),
        (None, "install gawk with the system's package manager"),
    ],
)
def test_what_is_missing_is_to_be_got_by_what_is_there(
    mngr: MngrProgram, path: Path, name: str | None, advice: str
) -> None:
    (path / "awk").unlink()
    (path / "apt-get").unlink()
    if name:
        installer(path, name)
    assert checks(mngr, "@local", env={"PATH": str(path)}, code=1)["awk"]["hint"] == advice


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ("1000", None),
        ("1003", None),
        ("998", None),
        ("1010", "it is 9s ahead of ours"),
        ("4700", "it is 1h ahead of ours"),
        ("900", "it is 1m behind ours"),
        (None, "it does not tell its time"),
        ("soon", "it does not tell its time"),
    ],
)
def test_a_clock_that_is_out_of_step_is_told(told: str | None, problem: str | None) -> None:
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
        ("[templates.t]\ncount = 'many'\n", "--count wants a whole number"),
    ],
)
def test_settings_that_cannot_be_used_are_found(mngr: MngrProgram, text: str, problem: str) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text(text)
    found = checks(mngr, code=1)["settings"]
    assert found["status"] == "error"
    assert problem in found["problem"]
    assert found["hint"]


def test_the_home_of_another_program_is_refused(mngr: MngrProgram) -> None:
    mngr.home.mkdir()
    (mngr.home / "thesis.tex").write_text("")
    found = checks(mngr, code=1)["home"]
    assert "is the home of another program" in found["problem"]
    assert os.listdir(mngr.home) == ["thesis.tex"]


def test_the_server_of_the_home_is_asked(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    assert checks(mngr)["tmux server"]["found"] == "answers, sessions: 1"


def test_a_server_that_died_under_its_agents_is_told(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr.run_tmux("kill-server")
    found = checks(mngr)["tmux server"]
    assert found["status"] == "warning"
    assert "it does not answer" in found["problem"]
    assert "mngr start" in found["hint"]


def test_a_broken_plugin_does_not_stop_the_doctor(mngr: MngrProgram, tmp_path: Path) -> None:
    info = tmp_path / "site/broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[mngr]\nbroken = no_such_module_at_all\n")
    found = checks(mngr, env={"PYTHONPATH": str(tmp_path / "site")}, code=1)["plugin broken"]
    assert "No module named 'no_such_module_at_all'" in found["problem"]
    assert "pip uninstall broken" in found["hint"]


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
def test_how_a_place_is_judged(change: dict[str, str | None], name: str, status: str) -> None:
    facts = {key: value for key, value in {**FACTS, **change}.items() if value is not None}
    found = {check.name: check for check in check_host(facts, "/home")}
    assert found[name].status == status
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
def test_versions_as_tmux_writes_them(said: str, status: str) -> None:
    assert check_programs({"program.tmux": "/t", "version.tmux": said}, ("tmux",))[0].status == status


def test_on_a_mac_the_packages_have_their_names_of_brew() -> None:
    found = check_programs({"system": "Darwin"}, ("tmux", "python3", "tar"))
    assert [check.hint for check in found] == [
        "brew install tmux",
        "brew install python",
        "brew install gnu-tar",
    ]


def test_a_server_that_ended_with_its_last_agent_is_no_trouble(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("stop", "foo")
    found = checks(mngr)["tmux server"]
    assert (found["status"], found["found"]) == ("ok", "not running; the first agent starts it")


@pytest.mark.hosts
def test_what_makes_hosts_is_asked(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr.env.update(Boxes(tmp_path / "engine").env)
    assert "it answers" in mngr("doctor", "@.box").out
    mngr.env["MODAL_SERVER_URL"] = "http://127.0.0.1:1"
    mngr.env["MNGR__PROVIDERS__MODAL__PYTHON"] = str(python())
    ran = mngr("doctor", "@.modal", code=1)
    assert "Modal cannot be reached: 127.0.0.1:1" in ran.out + ran.err
    ran = mngr("doctor", "@.modal", "-S", "providers.modal.cpus=lots", code=1)
    assert "cpus cannot be 'lots'" in ran.out + ran.err
    assert not (mngr.home / "agents").exists()  # it changes nothing
