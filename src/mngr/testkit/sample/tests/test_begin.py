"""The first steps."""

from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_version(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # which version is this
    pantry --version
    """)
    result = e2e.run("pantry --version")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("pantry [NUMBER]")


def test_init(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # make a pantry in this directory
    pantry init
    """)
    result = e2e.run("pantry init")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("made pantry.json")
    expect(e2e.cwd).to_match_tree({"pantry.json": "{}\n"})


def test_init_twice(e2e: E2eSession) -> None:
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry init")
    expect(result).to_fail(1)
    expect(result.stderr).to_contain("pantry.json is here already")
