"""list.sh reads all agents at once, whatever an agent has put in place of its files."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.host.scripts.conftest import Land, Place, land, which

FILES = ("agent.json", "exit", "stopped", "status", "proc")


def make_agents(place: Place, count: int) -> dict[str, str]:
    """Create agents without processes, and return the rows that `list` should print for their files."""
    expected = {}
    for number in range(count):
        folder = place.agent(number, "true")
        for name in FILES[1:]:
            (folder / name).write_text(f'{{"{name}":{number}}}\nand more\n')
        for name in FILES:
            expected[f"{folder.name}/{name}"] = (folder / name).read_text().split("\n")[0]
    return expected


def select_file_rows(rows: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in rows.items() if "/" in key}


def test_list_prints_all_agents_or_only_the_named_ones(place: Place) -> None:
    expected = make_agents(place, 12)
    rows = place.list()
    assert select_file_rows(rows) == expected
    assert [key for key in rows if key.startswith("dir ")] == [f"dir a-{n:012x}" for n in range(12)]
    first, second = "a-000000000003", "a-000000000007"
    for name in FILES[1:]:
        (place.home / "agents" / first / name).unlink()
    selected = place.list(first, second, "a-00000000ffff")
    assert select_file_rows(selected) == {
        key: value for key, value in expected.items() if key.startswith((f"{first}/agent", f"{second}/"))
    }


def test_file_names_without_any_file_print_nothing(place: Place) -> None:
    assert select_file_rows(place.list()) == {}
    place.agent(1, "true")
    assert list(select_file_rows(place.list())) == ["a-000000000001/agent.json"]


def test_the_first_line_has_the_homes_real_path_and_uid(place: Place, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place.home)
    for socket in (place.socket, tmp_path / "nowhere" / "socket"):
        output = place.land.run("list.sh", tmp_path / "link", socket)
        assert output.split("\n")[0] == f"home {place.home} {os.getuid()}"
    place.socket.parent.mkdir()
    output = place.land.run("list.sh", place.home, place.socket)
    assert output.split("\n")[0] == f"home {place.home} {os.getuid()}"
    assert place.land.run("list.sh", tmp_path / "gone", place.socket) == ""


def test_a_dangling_link_of_the_first_agent_hides_no_other_file(place: Place) -> None:
    expected = make_agents(place, 2)
    path = place.home / "agents" / "a-000000000000" / "status"
    path.unlink()
    path.symlink_to("nowhere")
    expected.pop("a-000000000000/status")
    assert select_file_rows(place.list()) == expected


def test_only_directories_with_valid_agent_ids_are_listed(place: Place) -> None:
    expected = make_agents(place, 2)
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
    assert select_file_rows(rows) == expected and "pane x agent" not in rows
    assert [key for key in rows if key.startswith("dir ")] == [f"dir a-{n:012x}" for n in range(2)]


def test_a_file_instead_of_the_first_directory_hides_no_agent(place: Place) -> None:
    place.agent(1, "true")
    (place.home / "agents" / "a-000000000000").touch()
    assert list(select_file_rows(place.list())) == ["a-000000000001/agent.json"]


def huge(path: Path) -> None:
    """Create a sparse file with one line that no memory can hold."""
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
def test_a_hostile_file_of_one_agent_does_not_affect_other_agents(place: Place, name: str) -> None:
    expected = make_agents(place, len(DAMAGE) + 2)
    for number, (description, damage) in enumerate(DAMAGE.items()):
        path = place.home / "agents" / f"a-{number:012x}" / name
        path.unlink()
        damage(path)
        started = time.monotonic()
        answer = place.land.run("list.sh", place.home, place.socket, timeout=10)
        assert time.monotonic() - started < 5, description
        assert len(answer) < 9_000_000, description
        rows = select_file_rows(place.list())
        damaged = {f"a-{index:012x}/{name}" for index in range(number + 1)}
        assert {key: rows.get(key) for key in expected if key not in damaged} == {
            key: value for key, value in expected.items() if key not in damaged
        }, description


@pytest.mark.parametrize("grep", ["its own", "busybox"])
@pytest.mark.parametrize("name", ["dash", "bash"])
def test_a_file_that_becomes_a_pipe_during_list_does_not_block(tmp_path: Path, name: str, grep: str) -> None:
    """grep opens the pipe and must not wait until a process writes to it."""
    place = Place(land(tmp_path, name, flock=True), tmp_path / "home", tmp_path / "socket")
    place.land.run("host_facts.sh", place.home, "make")
    expected = make_agents(place, 3)
    trap = place.home / "agents" / "a-000000000001" / "status"
    (place.land.bin / "mkfifo").symlink_to(which("mkfifo"))
    real = "{real}" if grep == "its own" else f"{which('busybox')} grep"
    last = "*' -D skip'*" if grep == "its own" else "*' -D '*) ;; */status*"  # busybox's grep fails on the first call
    set_trap = f"case $* in {last}) [ -p {trap} ] || {{ rm -f {trap}; mkfifo {trap}; }} ;; esac"
    place.land.replace("grep", f'#!/bin/sh\n{set_trap}\nexec {real} "$@"\n')
    argv = place.land.argv("list.sh", place.home, place.socket)
    argv[2] = argv[2].replace("timeout 9", "timeout 1")
    done = subprocess.run(argv, env=place.land.env, capture_output=True, text=True, timeout=10, check=False)
    assert done.stdout.startswith("home ") and trap.is_fifo()
    if grep == "its own":  # busybox's grep is killed before it has read everything
        rest = {key for key in expected if key != "a-000000000001/status"}
        assert {line.partition(":")[0] for line in done.stdout.split("\n")} >= rest


def test_a_tmux_server_of_another_user_is_not_used(place: Place, plain: Land) -> None:
    if os.getuid():
        other = Path("/")
    else:
        other = place.socket.parent
        other.mkdir()
        os.chown(other, 12345, 12345)
    assert "\nstranger\n" in plain.run("list.sh", place.home, other / "socket")
