"""doctor.sh prints facts about a host, one per line, with any set of tools."""

from __future__ import annotations

import os
import time

from tests.host.scripts.conftest import Land, Place


def run_doctor(land: Land, *words: object) -> dict[str, str]:
    lines = land.run("doctor.sh", *words).splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def test_doctor_reports_programs_versions_and_free_space(place: Place) -> None:
    place.start(1, "sleep", "1000")
    facts = run_doctor(place.land, place.home, place.socket, "git", "tmux", "no-such-program")
    assert facts["system"] == "Linux" and abs(int(facts["clock"]) - time.time()) < 5
    assert facts["program.git"] == str(place.land.bin / "git")
    assert facts["program.flock"] == str(place.land.bin / "flock")
    assert "program.no-such-program" not in facts
    assert facts["version.git"].startswith("git version ") and facts["version.tmux"].startswith("tmux ")
    assert facts["terminfo"] == facts["writable"] == facts["running"] == "yes"
    disk = os.statvfs(place.home)
    assert abs(int(facts["free.kb"]) - disk.f_bavail * disk.f_frsize // 1024) < 1_000_000
    assert abs(int(facts["free.inodes"]) - disk.f_favail) < 100_000
    assert facts["sessions"] == "1" and "stranger" not in facts


def test_doctor_does_not_create_a_missing_home(plain: Land) -> None:
    home = plain.bin.parent / "no" / "home"
    facts = run_doctor(plain, home, "/nowhere/socket")
    assert facts["writable"] == "yes" and int(facts["free.kb"]) > 0
    assert not {"running", "sessions", "server", "stranger"} & set(facts)
    assert not home.parent.exists()
