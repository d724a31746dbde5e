from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_serve_once(e2e: E2eSession) -> None:
    """`pastebox serve --once` answers one request and ends."""
    (e2e.cwd / "note.txt").write_text("hi\n")
    e2e.run("pastebox serve --once --port-file port note.txt &")
    result = e2e.run("pastebox get --port-file port note.txt", timeout=10)
    expect(result).to_succeed()
    expect(result.stdout).to_equal("hi")


def test_get_nothing(e2e: E2eSession) -> None:
    """Without a server the message says so."""
    result = e2e.run("pastebox get --port-file port note.txt")
    expect(result).to_fail(1)
    expect(result.stderr).to_contain("no server: port is not there")
