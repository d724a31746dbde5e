"""Agents' terminals, recorded by asciinema while a test goes on."""

from __future__ import annotations

import json
from pathlib import Path

from mngr.e2e import E2eSession, expect
from tests.conftest import wait_for


def shown(cast: Path) -> str:
    return "".join(json.loads(row)[2] for row in cast.read_text().splitlines()[1:])


def test_agents_are_recorded_each_under_its_name(e2e: E2eSession) -> None:
    expect(e2e.run("git init -q && git commit -q --allow-empty -m first")).to_succeed()
    connect = "--connect --connect-command mngr-e2e-connect"
    expect(e2e.run(f"mngr create foo {connect} -- sh -c 'echo this is foo; cat'")).to_succeed()
    e2e.record("the other one")
    expect(e2e.run(f"mngr create bar {connect} -- sh -c 'echo this is bar; cat'")).to_succeed()
    expect(e2e.run("mngr message foo -m 'a word for foo'")).to_succeed()
    foo, bar = e2e.artifacts / "foo.cast", e2e.artifacts / "the-other-one.cast"
    wait_for(lambda: "a word for foo" in shown(foo))
    assert "this is foo" in shown(foo)
    wait_for(lambda: "this is bar" in shown(bar))
    header = json.loads(bar.read_text().splitlines()[0])
    assert (header["version"], header["width"], header["height"]) == (2, 80, 24)


def test_outside_of_a_test_it_says_so(e2e: E2eSession) -> None:
    result = e2e.run("mngr-e2e-connect")
    expect(result).to_fail(1)
    expect(result.stderr).to_match_lines("""
        Error: mngr-e2e-connect: it is run by mngr in a test with the fixture e2e
        Hint: mngr connect NAME --connect-command mngr-e2e-connect
    """)
