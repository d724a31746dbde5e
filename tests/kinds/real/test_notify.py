"""Notifications about the real Claude Code: its request, the command that answers it, and the end of its turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram, wait_for
from tests.kinds.real.kit import fake
from tests.support.notify_follower import Follower, configure, wait_for_count
from tests.support.web_receiver import WebReceiver


@pytest.fixture
def claude(coder: MngrProgram, model: ModelServer) -> MngrProgram:
    model.reset()
    coder.env.update({"ANTHROPIC_BASE_URL": model.url("claude"), "ANTHROPIC_AUTH_TOKEN": "hush-hush"})
    return coder


@pytest.fixture
def receiver(claude: MngrProgram) -> Iterator[WebReceiver]:
    server = WebReceiver()
    configure(claude, channels='["webhook"]', webhook_url=server.url)
    yield server
    server.close()


KIND = "claude"


def test_each_request_of_claude_and_each_end_of_its_turn_is_sent_once(
    claude: MngrProgram, receiver: WebReceiver
) -> None:
    steps = [{"text": "on it", "sh": "echo hi > out.txt"}, {"text": "all done"}]
    with Follower(claude):
        claude("create", "foo", "claude", "--no-connect", "-m", fake(steps))
        (asked,) = wait_for_count(receiver, 1, 60.0)
        assert asked["event"] == "permission" and "echo hi > out.txt" in asked["question"]
        claude(*asked["commands"][0].split()[1:])
        _, ended = wait_for_count(receiver, 2, 60.0)
        assert (ended["event"], ended["question"]) == ("answer", "all done")
    assert (claude.get_work_dir("foo") / "out.txt").read_text() == "hi\n"
    claude("message", "foo", "-m", fake([{"text": "blue it is"}]), "--wait")
    with Follower(claude):
        claude("create", "bar", "--", "false")
        wait_for(lambda: "bar" in [item["name"] for item in receiver.list_json()])
        wait_for_count(receiver, 4)
    items = [(item["name"], item["event"], item["question"]) for item in receiver.list_json()]
    assert sorted(items[2:]) == [("bar", "failed", ""), ("foo", "answer", "blue it is")]
