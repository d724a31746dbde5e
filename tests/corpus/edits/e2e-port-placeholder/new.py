from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_serve_says_where(e2e: E2eSession) -> None:
    """`docserve --port 0 --check` says where it would listen, and ends."""
    (e2e.cwd / "index.html").write_text("<h1>hi</h1>\n")
    e2e.redaction("PORT", r"\d{4,5}")
    result = e2e.run("docserve --port 0 --check")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        listening on http://127.0.0.1:[PORT]/
        1 page
    """)


def test_serve_nothing(e2e: E2eSession) -> None:
    """Without pages there is nothing to serve."""
    result = e2e.run("docserve --port 0 --check")
    expect(result).to_fail(1)
    expect(result.stderr).to_contain("no pages here")
