"""aider, for real."""

from __future__ import annotations

import os
import signal
from typing import Any

from mngr.agents.aider import AiderKind
from mngr.modelserver import ModelServer
from tests.agents.kit import AgentContract, Steps, fake
from tests.conftest import Mngr, wait_for


class TestAider(AgentContract):
    """By the checks that every coding agent must pass."""

    kind = "aider"
    features = AiderKind.features
    obeys = ("/help", "!ls")

    def env(self, model: ModelServer, coder: Mngr) -> dict[str, str]:
        return {
            "OPENAI_API_KEY": "hush-hush",
            "OPENAI_API_BASE": model.url("aider") + "/v1",
            "AIDER_MODEL": "openai/fake-model",
            "AIDER_EDIT_FORMAT": "whole",
        }

    def edit(self, path: str, content: str) -> Steps:
        return [{"text": f"Sure.\n\n{path}\n```\n{content}```\n"}]

    def asking(self, command: str) -> dict[str, Any]:
        """It asks before it makes a file."""
        _, word, _, path = command.split()
        return self.edit(path, f"{word}\n")[0]

    def test_limits_logins_and_crashes(self, fleet: Mngr) -> None:
        """As for all; but it gives up on a limit only after a minute, so here the model relents."""
        self.create(fleet, "foo", message="hello")
        fleet("message", "foo", "-m", fake([{"text": "x", "fail": {"status": 429, "times": 5}}], "429"))
        wait_for(lambda: self.state(fleet, "foo") == ("RUNNING", "retrying"))
        fleet("wait", "foo", "--timeout", "30")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")
        fleet("message", "foo", "-m", fake([{"text": "x", "fail": {"status": 401, "times": -1}}], "401"))
        fleet("wait", "foo", "--state", "PARKED", "--timeout", "30")
        assert self.state(fleet, "foo") == ("PARKED", "login")
        fleet("message", "foo", "-m", fake([{"text": "fine"}], "well again"), "--wait", "--timeout", "30")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")
        os.kill(fleet.agent("foo")["pid"], signal.SIGKILL)
        wait_for(lambda: fleet.agent("foo")["state"] == "FAILED")
        fleet("start", "foo")
        fleet("message", "foo", "-m", "back", "--wait", "--timeout", "60")
        said = [row["text"].strip() for row in self.rows(fleet, "foo") if row["role"] == "user"]
        assert (said[0], said[-1]) == ("hello", "back")
