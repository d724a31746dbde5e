from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_render_as_text(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # as plain text
    slides render talk.md --format text
    """)
    (e2e.cwd / "talk.md").write_text("# Hello\n\n- one\n- two\n")
    result = e2e.run("slides render talk.md --format text")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("HELLO\n\n* one\n* two")


def test_render_unknown(e2e: E2eSession) -> None:
    """A format that is not known is refused, with those that are."""
    (e2e.cwd / "talk.md").write_text("# Hello\n")
    result = e2e.run("slides render talk.md --format opera")
    expect(result).to_fail(2)
    expect(result.stderr).to_contain("opera", "text", "html")
