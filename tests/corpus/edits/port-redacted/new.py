from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_serve(e2e: E2eSession) -> None:
    """Says where it listens."""
    e2e.redaction("PORT", r"\d{2,5}")
    result = e2e.run("pantry serve --once --port 0")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("listening on http://127.0.0.1:[PORT]/")
