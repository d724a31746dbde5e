"""hello.sh: the first words with a host, in one round trip."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from pathlib import Path

import pytest

from mngr.base.errors import MngrError
from mngr.base.paths import Home
from tests.host.scripts.conftest import Land


def facts(land: Land, *words: object, user: str | None = None) -> dict[str, str]:
    lines = land.run("hello.sh", *words, home=user).splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def test_what_a_host_tells_of_itself(any_land: Land) -> None:
    told = facts(any_land)
    assert told["home"] == os.path.realpath(any_land.bin.parent / ".mngr")
    assert (told["uid"], told["login"]) == (str(os.getuid()), pwd.getpwuid(os.getuid()).pw_name)
    assert told["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert told["os"] == "Linux"
    assert abs(int(told["clock"]) - time.time()) < 5
    assert float(told["load"]) >= 0 and int(told["cpus"]) == len(os.sched_getaffinity(0))
    room = os.statvfs(any_land.bin)
    assert abs(int(told["free"]) - room.f_bavail * room.f_frsize // 1024) < 1_000_000
    said = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    assert told["git"] == said.split()[2]
    assert (
        "tmux " + told["tmux"]
        == subprocess.run(["tmux", "-V"], capture_output=True, text=True, check=True).stdout.strip()
    )
    assert "missing" not in told
    assert told.get("flock") == (str(any_land.bin / "flock") if (any_land.bin / "flock").exists() else None)
    assert "python3" not in told and "rsync" not in told
    assert not (any_land.bin.parent / ".mngr").exists()


def test_what_is_missing_is_named(plain: Land) -> None:
    for name in ("git", "tmux", "tar"):
        (plain.bin / name).unlink()
    lines = plain.run("hello.sh").splitlines()
    gone = ["git", "tmux"] if plain.name == "busybox" else ["git", "tmux", "tar"]  # it is its own tar
    assert [line for line in lines if line.startswith("missing")] == [f"missing {name}" for name in gone]
    assert not [line for line in lines if line.startswith(("git", "tmux"))]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", "{user}/.mngr"),
        ("~", "{user}"),
        ("~/x y/z", "{user}/x y/z"),
        ("x/y", "{user}/x/y"),
        ("{other}/deep/er//", "{other}/deep/er"),
        ("{link}/new/home", "{other}/new/home"),
        ("{link}", "{other}"),
        ("/", "/"),
        ("/no such place/at all", "/no such place/at all"),
    ],
)
def test_the_home_is_told_by_its_real_path_be_it_there_or_not(
    plain: Land, tmp_path: Path, given: str, meant: str
) -> None:
    user, other, link = tmp_path / "user", tmp_path / "other", tmp_path / "link"
    user.mkdir()
    other.mkdir()
    link.symlink_to(other)
    words = {"user": str(user), "other": str(other), "link": str(link)}
    assert facts(plain, given.format(**words), user=str(user))["home"] == meant.format(**words)
    assert sorted(os.listdir(tmp_path)) == ["bin", "link", "other", "user"] and not list(user.iterdir())


def test_a_user_without_the_variable_has_a_home_all_the_same(plain: Land) -> None:
    assert facts(plain, user="")["home"] == os.path.realpath(f"{pwd.getpwuid(os.getuid()).pw_dir}/.mngr")


def test_a_home_is_made_once_and_python_takes_it_for_one(plain: Land, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    home = tmp_path / "h" / "home"
    for _ in range(2):
        assert facts(plain, tmp_path / "link" / "h" / "home", "make")["home"] == str(home)
        assert sorted(os.listdir(home)) == ["agents", "cache", "lib", "names", "version", "work"]
        assert {path.stat().st_mode & 0o777 for path in (home, *home.iterdir()) if path.is_dir()} == {0o700}
        assert Home(str(home)).exists()
        (home / "agents" / "a-000000000001").mkdir(exist_ok=True)
    assert facts(plain, home)["agents"] == "1"
    (home / "agents" / "a-000000000001" / "exit").touch()
    assert facts(plain, home)["agents"] == "0"


def test_a_home_that_python_made_is_one(plain: Land, tmp_path: Path) -> None:
    home = Home(str(tmp_path / "home"))
    home.create()
    told = facts(plain, home.root, "make")
    assert not {"stranger", "newer", "unwritable"} & set(told)


def test_what_stands_in_a_home_without_a_mark_is_judged_as_python_does(plain: Land, tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir()
    own = {os.path.basename(path) for path in vars(Home(str(root))).values() if path.startswith(f"{root}/")}
    own -= {"version"}
    for name in sorted(
        {*own, "settings.local.toml", "runs", "outputs", "e2e", "version.123", ".hidden", "..x", "thesis"}
    ):
        (root / name).mkdir()
        try:
            Home(str(root)).exists()
            expected = None
        except MngrError:
            expected = name
        assert facts(plain, root, "make").get("stranger") == expected, name
        if expected:
            assert os.listdir(root) == [name]
        for path in sorted(root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("mngr 1\n", {}),
        ("mngr 7\n", {"newer": "7"}),
        ("mngr\n", {"stranger": "version"}),
        ("mngr one\n", {"stranger": "version"}),
        ("mngr 1 2\n", {"stranger": "version"}),
        ("other 1\n", {"stranger": "version"}),
        ("", {"stranger": "version"}),
    ],
)
def test_the_mark_says_whose_home_it_is(plain: Land, tmp_path: Path, mark: str, said: dict[str, str]) -> None:
    (tmp_path / "version").write_text(mark)
    told = facts(plain, tmp_path, "make")
    assert {key: told[key] for key in ("stranger", "newer", "unwritable") if key in told} == said
    assert told["home"] == str(tmp_path) and (tmp_path / "version").read_text() == mark
    assert (tmp_path / "agents").exists() == (not said)


def test_where_nothing_can_be_written_it_is_said_why(plain: Land, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "home"):
        told = facts(plain, home, "make")
        assert told["unwritable"] and "\n" not in told["unwritable"]
    os.mkfifo(tmp_path / "version")
    assert facts(plain, tmp_path, "make")["stranger"] == "version"
