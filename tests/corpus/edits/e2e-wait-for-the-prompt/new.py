from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_wizard(e2e: E2eSession) -> None:
    """The wizard asks for name and size, and writes both."""
    tty = e2e.tty("boxmaker wizard", rows=12, columns=60)
    tty.wait_for("Name?")
    tty.type("crate")
    tty.press("Enter")
    tty.wait_for("Size?")
    tty.type("40")
    tty.press("Enter")
    expect(tty.wait()).to_succeed()
    expect(e2e.cwd).to_match_tree({"box.ini": "[box]\nname = crate\nsize = 40\n"})
