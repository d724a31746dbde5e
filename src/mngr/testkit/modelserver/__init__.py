"""A scripted model on loopback: real coding agents talk to it, and it says what a test wants a model to say.

with ModelServer([{"sh": "echo hi > hi.txt"}, {"text": "done"}]) as server:
    environment["ANTHROPIC_BASE_URL"] = server.url("foo")
    ...
    assert [row["status"] for row in server.log("foo")] == [200, 200]
"""

from __future__ import annotations

from mngr.testkit.modelserver.server import ModelServer

__all__ = ["ModelServer"]
