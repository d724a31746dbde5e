"""doctor.sh: what a host has, a fact a line, whatever its tools are."""

from __future__ import annotations

import os
import time

from tests.host.scripts.conftest import Land, Place


def facts(land: Land, *words: object) -> dict[str, str]:
    lines = land.run("doctor.sh", *words).splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def test_a_host_tells_what_it_has(place: Place) -> None:
    place.start(1, "sleep", "1000")
    told = facts(place.land, place.home, place.socket, "git", "tmux", "no-such-program")
    assert told["system"] == "Linux" and abs(int(told["clock"]) - time.time()) < 5
    assert told["program.git"] == str(place.land.bin / "git")
    assert told["program.flock"] == str(place.land.bin / "flock")
    assert "program.no-such-program" not in told
    assert told["version.git"].startswith("git version ") and told["version.tmux"].startswith("tmux ")
    assert told["terminfo"] == told["writable"] == told["running"] == "yes"
    room = os.statvfs(place.home)
    assert abs(int(told["free.kb"]) - room.f_bavail * room.f_frsize // 1024) < 1_000_000
    assert abs(int(told["free.inodes"]) - room.f_favail) < 100_000
    assert told["sessions"] == "1" and "stranger" not in told


def test_a_home_that_is_not_there_is_not_made(plain: Land) -> None:
    home = plain.bin.parent / "no" / "home"
    told = facts(plain, home, "/nowhere/socket")
    assert told["writable"] == "yes" and int(told["free.kb"]) > 0
    assert not {"running", "sessions", "server", "stranger"} & set(told)
    assert not home.parent.exists()
