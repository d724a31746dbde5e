"""The live page with the real Claude Code: its question, an answer, a message, its screen and its conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram
from tests.kinds.real.kit import fake
from tests.support.live_page import LiveServer


@pytest.fixture
def claude(coder: MngrProgram, model: ModelServer) -> MngrProgram:
    model.reset()
    coder.env.update({"ANTHROPIC_BASE_URL": model.url("claude"), "ANTHROPIC_AUTH_TOKEN": "hush-hush"})
    return coder


KIND = "claude"


def wait_for_event(server: LiveServer, path: str, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Return the first event that fulfils a condition. The server sends a heartbeat at least every 15 s."""
    with server.stream(path) as events:
        for _, (_, event) in zip(range(300), events, strict=False):
            if condition(event):
                facts: dict[str, Any] = event
                return facts
    pytest.fail(f"{path} sent no such event")


def test_a_person_allows_and_messages_claude_from_the_page(claude: MngrProgram) -> None:
    steps = [{"text": "on it", "sh": "echo hi > out.txt"}, {"text": "all done"}]
    claude("create", "foo", "claude", "--no-connect", "-m", fake(steps))
    agent = claude.get_agent("foo")["id"]
    page = f"/agents/{agent}"
    with LiveServer(claude) as server:
        card = wait_for_event(
            server, "/events", lambda event: 'data-action="allow"' in event.get("cards", {}).get(agent, "")
        )["cards"][agent]
        assert "echo hi" in card
        state = card.partition('data-state="')[2].partition('"')[0]
        code, answer = server.post(f"{page}/actions", {"kind": "allow", "state": state})
        assert (code, answer["text"]) == (200, "allowed foo")
        claude("wait", "foo", "--timeout", "60")
        assert (claude.get_work_dir("foo") / "out.txt").read_text() == "hi\n"
        code, answer = server.post(f"{page}/actions", {"kind": "message", "text": fake([{"text": "blue it is"}])})
        assert answer["ok"], answer
        for tab in ("screen", "conversation"):  # Each shows the message with its script, and then the reply.
            wait_for_event(
                server, f"{page}/events?tab={tab}", lambda event: event.get("html", "").count("blue it is") > 1
            )
