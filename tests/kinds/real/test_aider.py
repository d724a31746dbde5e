"""The contract with the real aider."""

from __future__ import annotations

from typing import Any

from mngr.kinds.aider.kind import AiderKind
from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram
from tests.kinds.real.kit import AgentContract, Steps


class TestAider(AgentContract):
    """The contract of every coding agent."""

    kind = "aider"
    features = AiderKind.features
    obeys = ("/help", "!ls")
    relents = 5  # it retries for a minute

    def env(self, model: ModelServer, coder: MngrProgram) -> dict[str, str]:
        return {
            "OPENAI_API_KEY": "hush-hush",
            "OPENAI_API_BASE": model.url("aider") + "/v1",
            "AIDER_MODEL": "openai/fake-model",
            "AIDER_EDIT_FORMAT": "whole",
        }

    def edit(self, path: str, content: str) -> Steps:
        return [{"text": f"Sure.\n\n{path}\n```\n{content}```\n"}]

    def asking(self, command: str) -> dict[str, Any]:
        """aider asks before it creates a file."""
        _, word, _, path = command.split()
        return self.edit(path, f"{word}\n")[0]


class TestAiderBefore(TestAider):
    """The contract with an older version."""

    version = "0.84.0"
