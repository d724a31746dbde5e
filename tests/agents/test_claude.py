"""Claude Code, for real."""

from __future__ import annotations

from mngr.modelserver import ModelServer
from tests.agents.kit import AgentContract
from tests.conftest import Mngr


class TestClaude(AgentContract):
    """By the checks that every coding agent must pass."""

    kind = "claude"
    obeys = ("/help", "!ls")

    def env(self, model: ModelServer, coder: Mngr) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": model.url("claude"), "ANTHROPIC_AUTH_TOKEN": "hush-hush"}

    def impatient(self) -> tuple[str, ...]:
        return ("--env", "CLAUDE_CODE_MAX_RETRIES=1")
