"""A scripted model server on loopback: real coding agents talk to it, and a test decides its answers.

with ModelServer([{"sh": "echo hi > hi.txt"}, {"text": "done"}]) as server:
    environment["ANTHROPIC_BASE_URL"] = server.url("foo")
    ...
    assert [row["status"] for row in server.list_requests("foo")] == [200, 200]
"""

from __future__ import annotations

from mngr.testkit.modelserver.server import ModelServer

__all__ = ["ModelServer"]
