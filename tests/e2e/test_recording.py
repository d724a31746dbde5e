"""Recordings of agents' terminals by asciinema during a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.e2e import E2eSession, expect
from tests.conftest import kill_tmux_servers, wait_for


@pytest.fixture(autouse=True)
def _kill_tmux_servers_afterwards(e2e: E2eSession) -> Iterator[None]:
    yield
    kill_tmux_servers(e2e.root)


def read_shown_text(cast: Path) -> str:
    return "".join(json.loads(row)[2] for row in cast.read_text().splitlines()[1:])


def test_each_agent_is_recorded_under_its_name(e2e: E2eSession) -> None:
    expect(e2e.run("git init -q && git commit -q --allow-empty -m first")).to_succeed()
    connect = "--connect --connect-command mngr-e2e-connect"
    expect(e2e.run(f"mngr create foo {connect} -- sh -c 'echo this is foo; cat'")).to_succeed()
    e2e.record("the other one")
    expect(e2e.run(f"mngr create bar {connect} -- sh -c 'echo this is bar; cat'")).to_succeed()
    expect(e2e.run("mngr message foo -m 'a word for foo'")).to_succeed()
    foo, bar = e2e.artifacts / "foo.cast", e2e.artifacts / "the-other-one.cast"
    wait_for(lambda: "a word for foo" in read_shown_text(foo))
    assert "this is foo" in read_shown_text(foo)
    wait_for(lambda: "this is bar" in read_shown_text(bar))
    header = json.loads(bar.read_text().splitlines()[0])
    assert (header["version"], header["width"], header["height"]) == (2, 80, 24)


def test_two_recordings_of_one_agent_contain_no_secrets(e2e: E2eSession) -> None:
    expect(e2e.run("git init -q && git commit -q --allow-empty -m first")).to_succeed()
    e2e.env["MY_TOKEN"] = "hunter2-hunter2"
    words = "'echo started; read word; echo told $word; cat'"
    expect(e2e.run(f"mngr create foo -- sh -c {words}")).to_succeed()
    e2e.record("never")
    e2e.record("both")
    for _ in range(2):
        expect(e2e.run("mngr connect foo --connect-command mngr-e2e-connect")).to_succeed()
    expect(e2e.run('mngr message foo -m "$MY_TOKEN"')).to_succeed()
    casts = [e2e.artifacts / "both.cast", e2e.artifacts / "both-2.cast"]
    texts = ("told hunter2-hunter2", "told [redacted: MY_TOKEN]")
    wait_for(lambda: all(any(text in read_shown_text(cast) for text in texts) for cast in casts))
    kill_tmux_servers(e2e.root)
    e2e.close()
    assert sorted(e2e.artifacts.glob("*.cast")) == sorted(casts)
    assert all("told [redacted: MY_TOKEN]" in read_shown_text(c) and "hunter2" not in c.read_text() for c in casts)


def test_connect_command_fails_outside_of_a_test(e2e: E2eSession) -> None:
    result = e2e.run("mngr-e2e-connect")
    expect(result).to_fail(1)
    expect(result.stderr).to_match_lines("""
        Error: mngr-e2e-connect: this program works only in a test with the fixture e2e
        Hint: use it in the test: mngr connect NAME --connect-command mngr-e2e-connect
    """)
