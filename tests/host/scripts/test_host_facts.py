"""host_facts.sh: first contact with a host, in one round trip."""

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


def read_host_facts(land: Land, *words: object, user: str | None = None) -> dict[str, str]:
    lines = land.run("host_facts.sh", *words, home=user).splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def test_one_round_trip_reports_the_facts_of_a_host(any_land: Land) -> None:
    facts = read_host_facts(any_land)
    assert facts["home"] == os.path.realpath(any_land.bin.parent / ".mngr")
    assert (facts["uid"], facts["login"]) == (str(os.getuid()), pwd.getpwuid(os.getuid()).pw_name)
    assert facts["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts["os"] == "Linux"
    assert abs(int(facts["clock"]) - time.time()) < 5
    assert float(facts["load"]) >= 0 and int(facts["cpus"]) == len(os.sched_getaffinity(0))
    disk = os.statvfs(any_land.bin)
    assert abs(int(facts["free"]) - disk.f_bavail * disk.f_frsize // 1024) < 1_000_000
    git_version = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    assert facts["git"] == git_version.split()[2]
    assert (
        "tmux " + facts["tmux"]
        == subprocess.run(["tmux", "-V"], capture_output=True, text=True, check=True).stdout.strip()
    )
    assert "missing" not in facts
    assert facts.get("flock") == (str(any_land.bin / "flock") if (any_land.bin / "flock").exists() else None)
    assert "python3" not in facts and "rsync" not in facts
    assert not (any_land.bin.parent / ".mngr").exists()


def test_missing_programs_are_reported(plain: Land) -> None:
    for name in ("git", "tmux", "tar"):
        (plain.bin / name).unlink()
    lines = plain.run("host_facts.sh").splitlines()
    missing = ["git", "tmux"] if plain.name == "busybox" else ["git", "tmux", "tar"]  # busybox has a built-in tar
    assert [line for line in lines if line.startswith("missing")] == [f"missing {name}" for name in missing]
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
def test_the_home_is_reported_by_its_real_path_even_if_it_is_missing(
    plain: Land, tmp_path: Path, given: str, meant: str
) -> None:
    user, other, link = tmp_path / "user", tmp_path / "other", tmp_path / "link"
    user.mkdir()
    other.mkdir()
    link.symlink_to(other)
    words = {"user": str(user), "other": str(other), "link": str(link)}
    assert read_host_facts(plain, given.format(**words), user=str(user))["home"] == meant.format(**words)
    assert sorted(os.listdir(tmp_path)) == ["bin", "link", "other", "user"] and not list(user.iterdir())


def test_the_home_is_found_without_the_variable_home(plain: Land) -> None:
    assert read_host_facts(plain, user="")["home"] == os.path.realpath(f"{pwd.getpwuid(os.getuid()).pw_dir}/.mngr")


def test_python_accepts_a_home_that_the_script_made(plain: Land, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    home = tmp_path / "h" / "home"
    for _ in range(2):
        assert read_host_facts(plain, tmp_path / "link" / "h" / "home", "make")["home"] == str(home)
        assert sorted(os.listdir(home)) == ["agents", "cache", "lib", "names", "version", "work"]
        assert {path.stat().st_mode & 0o777 for path in (home, *home.iterdir()) if path.is_dir()} == {0o700}
        assert Home(str(home)).exists()
        (home / "agents" / "a-000000000001").mkdir(exist_ok=True)
    assert read_host_facts(plain, home)["agents"] == "1"
    (home / "agents" / "a-000000000001" / "exit").touch()
    assert read_host_facts(plain, home)["agents"] == "0"


def test_the_script_accepts_a_home_that_python_made(plain: Land, tmp_path: Path) -> None:
    home = Home(str(tmp_path / "home"))
    home.create()
    facts = read_host_facts(plain, home.root, "make")
    assert not {"stranger", "newer", "unwritable"} & set(facts)


def test_the_script_and_python_agree_on_foreign_files_in_a_home(plain: Land, tmp_path: Path) -> None:
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
        assert read_host_facts(plain, root, "make").get("stranger") == expected, name
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
def test_the_version_file_decides_whether_a_home_can_be_used(
    plain: Land, tmp_path: Path, mark: str, said: dict[str, str]
) -> None:
    (tmp_path / "version").write_text(mark)
    facts = read_host_facts(plain, tmp_path, "make")
    assert {key: facts[key] for key in ("stranger", "newer", "unwritable") if key in facts} == said
    assert facts["home"] == str(tmp_path) and (tmp_path / "version").read_text() == mark
    assert (tmp_path / "agents").exists() == (not said)


def test_an_unwritable_home_is_reported_with_the_reason(plain: Land, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "home"):
        facts = read_host_facts(plain, home, "make")
        assert facts["unwritable"] and "\n" not in facts["unwritable"]
    os.mkfifo(tmp_path / "version")
    assert read_host_facts(plain, tmp_path, "make")["stranger"] == "version"
