"""The steps of a test: the line of each command in the transcript, its time, and the files that it changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mngr.e2e import E2eSession

TOKEN = "gh" + "p_" + "a1B2" * 9


@pytest.fixture
def session(tmp_path: Path) -> Iterator[E2eSession]:
    session = E2eSession(tmp_path / "artifacts")
    yield session
    session.close()


def read_steps(session: E2eSession) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (session.artifacts / "steps.jsonl").read_text().splitlines()]


def read_line(session: E2eSession, number: int) -> str:
    return (session.artifacts / "transcript.txt").read_text().splitlines()[number]


def test_each_command_is_a_step_with_its_line_and_time(session: E2eSession) -> None:
    session.comment("two commands")
    session.run("echo one; echo two")
    session.run("false")
    steps = read_steps(session)
    assert [read_line(session, step["line"]) for step in steps] == ["$ echo one; echo two", "$ false"]
    assert 0 <= steps[0]["at"] < steps[1]["at"]


def test_keys_in_a_terminal_are_steps_and_its_recording_has_a_begin(session: E2eSession) -> None:
    with session.tty("echo ready; cat", name="talk") as terminal:
        terminal.wait_for("ready")
        terminal.type("hello\n")
        terminal.wait_for("hello")
    first, keys = read_steps(session)
    assert first["terminal"] == "talk" and read_line(session, first["line"]) == "$ echo ready; cat"
    assert read_line(session, keys["line"]) == "# [talk] typed 'hello\\n'"


def test_a_step_has_the_files_that_the_command_changed(session: E2eSession) -> None:
    (session.cwd / "old").write_text("a\nb\n")
    session.run("echo c >>old; mkdir folder; echo x >folder/new; mkdir .git; echo y >.git/config")
    session.run("rm old; printf '\\0\\377' >folder/new")
    first, second = [step["files"] for step in read_steps(session)]
    assert first == [
        {"path": "folder/new", "change": "added", "diff": ["@@ -0,0 +1 @@", "+x"]},
        {"path": "old", "change": "changed", "diff": ["@@ -1,2 +1,3 @@", " a", " b", "+c"]},
    ]
    assert second == [
        {"path": "folder/new", "change": "changed", "diff": []},
        {"path": "old", "change": "removed", "diff": ["@@ -1,3 +0,0 @@", "-a", "-b", "-c"]},
    ]


def test_a_command_that_times_out_is_a_step(session: E2eSession) -> None:
    with pytest.raises(AssertionError):
        session.run("echo x >new; sleep 60", timeout=0.5)
    [step] = read_steps(session)
    assert [file["path"] for file in step["files"]] == ["new"]


def test_links_and_pipes_are_not_read(session: E2eSession) -> None:
    session.run("ln -s /etc/passwd link; ln -s /etc folder; mkfifo pipe; echo x >file")
    assert [file["path"] for file in read_steps(session)[0]["files"]] == ["file"]


def test_a_secret_in_a_file_is_removed(session: E2eSession) -> None:
    session.run(f"echo {TOKEN} >file")
    assert "a1B2" not in (session.artifacts / "steps.jsonl").read_text()


def test_the_changes_of_a_large_directory_are_not_recorded(session: E2eSession) -> None:
    session.run("for n in $(seq 1100); do : >file-$n; done")
    assert read_steps(session)[0]["files"] == []


def test_the_changes_of_many_and_long_files_are_limited(session: E2eSession) -> None:
    session.run("for n in $(seq 100); do seq 1000 >file-$n; done")
    files = read_steps(session)[0]["files"]
    assert len(files) == 31 and files[-1]["path"] == "70 more files"
    assert len(files[0]["diff"]) == 101 and files[0]["diff"][-1] == "… 901 more lines"
