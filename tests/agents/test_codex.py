"""Codex, for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mngr.agents.codex import CodexKind
from mngr.modelserver import ModelServer
from tests.agents.kit import AgentContract
from tests.conftest import Mngr

SETTINGS = """\
model = "gpt-5.5"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 0
"""


class TestCodex(AgentContract):
    """By the checks that every coding agent must pass."""

    kind = "codex"
    features = CodexKind.features
    obeys = ("/help", "!ls")

    def env(self, model: ModelServer, coder: Mngr) -> dict[str, str]:
        place = Path(coder.env["HOME"]) / ".codex"
        place.mkdir()
        (place / "config.toml").write_text(SETTINGS.format(url=model.url("codex")))
        return {"SCRIPTED_KEY": "hush-hush"}

    def asking(self, command: str) -> dict[str, Any]:
        """It asks for nothing that its own sandbox allows, so the model wants to get out of that."""
        given = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I?"}
        return {"tool": "exec_command", "input": given}
