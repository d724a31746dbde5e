from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_menu_moves(e2e: E2eSession) -> None:
    """The arrow keys move the mark, Enter takes the marked line."""
    tty = e2e.tty("picker red green blue", rows=10, columns=40)
    tty.wait_for("> red")
    tty.press("Down")
    tty.wait_for("> green")
    expect(tty.screen()).to_match_lines("""
          red
        > green
          blue
    """)
    tty.press("Enter")
    result = tty.wait()
    expect(result).to_succeed()
    expect(tty.screen()).to_contain("you took green")
