"""The contract with the real Codex, and tests of its own features."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mngr.kinds.codex.kind import CodexKind
from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram, run_git, wait_for
from tests.kinds.real.kit import AgentContract, fake

SETTINGS = """\
model = "gpt-5.5"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
stream_idle_timeout_ms = 3000
"""


@pytest.mark.sampled(3)
class TestCodex(AgentContract):
    """The contract of every coding agent."""

    kind = "codex"
    features = CodexKind.features
    obeys = ("/help", "!ls")

    def env(self, model: ModelServer, coder: MngrProgram) -> dict[str, str]:
        config_dir = Path(coder.env["HOME"]) / ".codex"
        config_dir.mkdir()
        (config_dir / "config.toml").write_text(SETTINGS.format(url=model.url("codex")))
        return {"SCRIPTED_KEY": "hush-hush"}

    def asking(self, command: str) -> dict[str, Any]:
        """Codex asks only for actions outside its own sandbox, so the model requests that."""
        tool_input = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I?"}
        return {"tool": "exec_command", "input": tool_input}

    def test_interruptions_quotas_and_retries_are_recognized_without_hooks(self, fleet: MngrProgram) -> None:
        self.create(fleet, "foo")
        slow = fake([{"text": "late", "delay": 60}], "take your time")
        fleet("message", "foo", "-m", slow)
        assert self.state(fleet, "foo") == ("RUNNING", None)
        fleet.run_tmux("send-keys", "-t", "=foo:", "Escape")
        fleet("wait", "foo", "--timeout", "10")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")
        until = 1_800_000_000  # 2027-01-15 08:00
        body = {"error": {"type": "usage_limit_reached", "message": "no more", "resets_at": until}}
        fleet("message", "foo", "-m", fake([{"text": "x", "fail": {"status": 429, "body": body}}], "more"))
        fleet("wait", "foo", "--timeout", "10")
        assert self.state(fleet, "foo") == ("PARKED", "quota")
        assert fleet.get_agent("foo")["parked_until"] == "2027-01-15T08:00:00.000Z"
        assert "→ program" in (explanation := fleet("explain", "foo").out) and "hit your usage limit" in explanation
        fleet("message", "foo", "-m", fake([{"hang": True, "text": "x"}], "and now"))
        wait_for(lambda: self.state(fleet, "foo") == ("RUNNING", "retrying"))

    def test_a_question_is_waited_for_if_the_feature_is_enabled(self, fleet: MngrProgram) -> None:
        options = ("--", "--enable", "default_mode_request_user_input")
        self.create(fleet, "foo", *options, message=fake([self.question("request_user_input"), {"text": "fine"}]))
        fleet("wait", "foo", "--timeout", "60")
        self.is_answered(fleet, "foo")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")

    def test_the_login_is_shared_and_the_users_files_stay_unchanged(self, fleet: MngrProgram) -> None:
        home = Path(fleet.env["HOME"]) / ".codex"
        (home / "auth.json").write_text('{"OPENAI_API_KEY": "hush-login"}')
        before = {path: path.read_bytes() for path in home.rglob("*")}
        hook_marker = fleet.repo.parent / "ran"  # a hook that nobody has reviewed must not run
        hooks = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": f"touch {hook_marker}"}]}]}}
        (fleet.repo / ".codex").mkdir()
        (fleet.repo / ".codex/hooks.json").write_text(json.dumps(hooks))
        run_git(fleet.repo, "add", ".codex")
        run_git(fleet.repo, "commit", "-qm", "hooks")
        self.create(fleet, "foo", message="see @notes")
        assert [row["text"] for row in self.rows(fleet, "foo") if row["role"] == "user"] == ["see @notes"]
        assert not hook_marker.exists()
        agent_dir = fleet.home / "agents" / fleet.get_agent("foo")["id"]
        assert os.readlink(agent_dir / "codex/auth.json") == str(home / "auth.json")
        assert {path: path.read_bytes() for path in home.rglob("*")} == before
        for name in ("command", "events.jsonl", "codex/config.toml", "agent.json"):
            assert "hush" not in (agent_dir / name).read_text()


class TestCodexBefore(TestCodex):
    """The contract with an older version."""

    version = "0.150.0"
