"""The contract with the real opencode, and tests of its own features."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram, wait_for
from tests.kinds.real.kit import AgentContract, fake
from tests.support.paths import ROOT

OUTSIDE = ROOT / "tests/corpus/opencode/exported.json"


@pytest.mark.sampled(3)
class TestOpencode(AgentContract):
    """The contract of every coding agent."""

    kind = "opencode"
    soon = {"retry-after-ms": "10"}
    asker = "question"

    def env(self, model: ModelServer, coder: MngrProgram) -> dict[str, str]:
        options = {"baseURL": model.url("opencode") + "/v1", "apiKey": "{env:FAKE_KEY}"}
        model_entry = {
            "name": "Fake",
            "limit": {"context": 200000, "output": 8000},
            "cost": {"input": 3, "output": 15},
        }
        provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"fake-model": model_entry}}
        config = {
            "model": "fake/fake-model",
            "small_model": "fake/fake-model",
            "enabled_providers": ["fake"],
            "provider": {"fake": provider},
        }
        config_dir = Path(coder.env["HOME"]) / ".config/opencode"
        config_dir.mkdir(parents=True)
        (config_dir / "opencode.jsonc").write_text(f"// a user's own\n{json.dumps(config)[:-1]},\n}}\n")
        return {"FAKE_KEY": "hush-hush"}

    def test_resume_plain_slashes_sub_agents_and_late_retries_work(self, fleet: MngrProgram) -> None:
        """One test for all of these, because opencode takes long to start."""
        offline = {**fleet.env, "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_PURE": "1"}
        subprocess.run(["opencode", "import", OUTSIDE], env=offline, check=True, capture_output=True, timeout=60)
        name = json.loads(OUTSIDE.read_text())["info"]["id"]
        self.create(fleet, "foo", "--resume", name, message="/help ! is text here")
        fleet("message", "foo", "-m", fake([{"text": "both"}], "at once"))
        fleet("wait", "foo", "--timeout", "60")
        rows = [row for row in self.rows(fleet, "foo") if row["role"] != "tool"]
        assert rows[3]["text"] == "/help ! is text here"
        answers = [row["text"] for row in rows if row["role"] == "assistant"]
        assert answers == ["on it", "all done", "ok", "both"]
        self.a_sub_agent_asks_too(fleet)
        self.a_new_try_that_is_far_off(fleet)

    def a_sub_agent_asks_too(self, fleet: MngrProgram) -> None:
        prompt = fake([{"sh": "pwd"}, {"text": "found it"}], "look")
        task = {"description": "look", "prompt": prompt, "subagent_type": "general"}
        steps = json.dumps([{"tool": "task", "input": task}, {"text": "all done"}]).replace("</", "<\\/")
        message = f"<fake>{steps}</fake> go"
        fleet("message", "foo", "-m", message, "--wait", "--timeout", "60")
        assert self.state(fleet, "foo") == ("WAITING", "permission")
        fleet("message", "foo", "--allow", "--wait", "--timeout", "60")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")
        call = self.rows(fleet, "foo")[-2]
        assert call["tool"] == "task" and "found it" in call["output"]
        assert call["usage"]["cost_usd"] > 0

    def a_new_try_that_is_far_off(self, fleet: MngrProgram) -> None:
        fail = {
            "status": 429,
            "times": 1,
            "headers": {"retry-after": "900"},
            "message": "Usage limit reached",
        }
        fleet("message", "foo", "-m", fake([{"text": "x", "fail": fail}]))
        fleet("wait", "foo", "--state", "PARKED", "--timeout", "30")
        agent = fleet.get_agent("foo")
        assert agent["state_reason"] == "quota" and agent["parked_until"]

        def is_over() -> bool:
            fleet.run_tmux("send-keys", "-t", "=foo:", "Escape")  # Escape must be pressed twice
            return self.state(fleet, "foo") == ("WAITING", "end_of_turn")

        wait_for(is_over)


class TestOpencodeBefore(TestOpencode):
    """The contract with an older version, which never gives up on a limit."""

    version = "1.15.0"
    relents = 2
