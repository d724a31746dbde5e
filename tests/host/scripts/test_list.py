"""list.sh: one look at all agents, whatever one of them has put in the place of its files."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.host.scripts.conftest import Land, Place, land, which

FILES = ("agent.json", "exit", "stopped", "status", "proc")


def fill(place: Place, count: int) -> dict[str, str]:
    """Agents that need no process, and all that `list` should tell of their files."""
    told = {}
    for number in range(count):
        folder = place.agent(number, "true")
        for name in FILES[1:]:
            (folder / name).write_text(f'{{"{name}":{number}}}\nand more\n')
        for name in FILES:
            told[f"{folder.name}/{name}"] = (folder / name).read_text().split("\n")[0]
    return told


def files(rows: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in rows.items() if "/" in key}


def test_all_agents_and_some(place: Place) -> None:
    told = fill(place, 12)
    rows = place.list()
    assert files(rows) == told
    assert [key for key in rows if key.startswith("dir ")] == [f"dir a-{n:012x}" for n in range(12)]
    one, other = "a-000000000003", "a-000000000007"
    for name in FILES[1:]:
        (place.home / "agents" / one / name).unlink()
    some = place.list(one, other, "a-00000000ffff")
    assert files(some) == {key: value for key, value in told.items() if key.startswith((f"{one}/agent", f"{other}/"))}


def test_names_that_no_agent_has_yet(place: Place) -> None:
    assert files(place.list()) == {}
    place.agent(1, "true")
    assert list(files(place.list())) == ["a-000000000001/agent.json"]


def test_the_first_line_is_where_the_home_really_is_and_whose(place: Place, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place.home)
    for socket in (place.socket, tmp_path / "nowhere" / "socket"):
        told = place.land.run("list.sh", tmp_path / "link", socket)
        assert told.split("\n")[0] == f"home {place.home} {os.getuid()}"
    place.socket.parent.mkdir()
    told = place.land.run("list.sh", place.home, place.socket)
    assert told.split("\n")[0] == f"home {place.home} {os.getuid()}"
    assert place.land.run("list.sh", tmp_path / "gone", place.socket) == ""


def test_a_link_to_nothing_in_the_first_place_hides_no_other(place: Place) -> None:
    told = fill(place, 2)
    path = place.home / "agents" / "a-000000000000" / "status"
    path.unlink()
    path.symlink_to("nowhere")
    told.pop("a-000000000000/status")
    assert files(place.list()) == told


def test_only_directories_of_agents_are_named(place: Place) -> None:
    told = fill(place, 2)
    for name in (
        "a-x\npane x agent",
        "a-00000000000",
        "a-0000000000000",
        "a-00000000000g",
        "a-x -f y",
        "a-*",
    ):
        (place.home / "agents" / name).mkdir()
        (place.home / "agents" / name / "proc").write_text("1\n")
    rows = place.list()
    assert files(rows) == told and "pane x agent" not in rows
    assert [key for key in rows if key.startswith("dir ")] == [f"dir a-{n:012x}" for n in range(2)]


def test_a_file_in_the_first_place_hides_no_agent(place: Place) -> None:
    place.agent(1, "true")
    (place.home / "agents" / "a-000000000000").touch()
    assert list(files(place.list())) == ["a-000000000001/agent.json"]


def huge(path: Path) -> None:
    """One line that no memory holds: it is nothing but a size."""
    with path.open("wb") as file:
        file.truncate(50 << 30)


def long(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(40):
            file.write(b"x" * (1 << 20))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "directory": lambda path: path.mkdir(),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "huge": huge,
    "long": long,
    "binary": lambda path: path.write_bytes(b"\0\xff\0\n" * 1000),
    "empty": lambda path: path.touch(),
    "many lines": lambda path: path.write_text("x\n" * 1_000_000),
}


@pytest.mark.parametrize("name", ["status", "agent.json"])
def test_what_an_agent_puts_in_the_place_of_a_file_harms_nobody_else(place: Place, name: str) -> None:
    told = fill(place, len(DAMAGE) + 2)
    for number, (what, damage) in enumerate(DAMAGE.items()):
        path = place.home / "agents" / f"a-{number:012x}" / name
        path.unlink()
        damage(path)
        began = time.monotonic()
        answer = place.land.run("list.sh", place.home, place.socket, timeout=10)
        assert time.monotonic() - began < 5, what
        assert len(answer) < 9_000_000, what
        rows = files(place.list())
        spoilt = {f"a-{n:012x}/{name}" for n in range(number + 1)}
        assert {key: rows.get(key) for key in told if key not in spoilt} == {
            key: value for key, value in told.items() if key not in spoilt
        }, what


@pytest.mark.parametrize("grep", ["its own", "busybox"])
@pytest.mark.parametrize("name", ["dash", "bash"])
def test_a_file_that_becomes_a_pipe_while_we_look(tmp_path: Path, name: str, grep: str) -> None:
    """grep opens it when it is one already; that must not wait until somebody writes."""
    place = Place(land(tmp_path, name, flock=True), tmp_path / "home", tmp_path / "socket")
    place.land.run("hello.sh", place.home, "make")
    told = fill(place, 3)
    trap = place.home / "agents" / "a-000000000001" / "status"
    (place.land.bin / "mkfifo").symlink_to(which("mkfifo"))
    real = "{real}" if grep == "its own" else f"{which('busybox')} grep"
    last = "*' -D skip'*" if grep == "its own" else "*' -D '*) ;; */status*"  # that of busybox fails on the first call
    set_trap = f"case $* in {last}) [ -p {trap} ] || {{ rm -f {trap}; mkfifo {trap}; }} ;; esac"
    place.land.replace("grep", f'#!/bin/sh\n{set_trap}\nexec {real} "$@"\n')
    argv = place.land.argv("list.sh", place.home, place.socket)
    argv[2] = argv[2].replace("timeout 9", "timeout 1")
    done = subprocess.run(argv, env=place.land.env, capture_output=True, text=True, timeout=10, check=False)
    assert done.stdout.startswith("home ") and trap.is_fifo()
    if grep == "its own":  # that of busybox is ended, with all that it had still to read
        rest = {key for key in told if key != "a-000000000001/status"}
        assert {line.partition(":")[0] for line in done.stdout.split("\n")} >= rest


def test_a_server_of_somebody_else_is_not_asked(place: Place, plain: Land) -> None:
    if os.getuid():
        other = Path("/")
    else:
        other = place.socket.parent
        other.mkdir()
        os.chown(other, 12345, 12345)
    assert "\nstranger\n" in plain.run("list.sh", place.home, other / "socket")
