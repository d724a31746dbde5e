"""opencode, for real."""

from __future__ import annotations

import json
from pathlib import Path

from mngr.modelserver import ModelServer
from tests.agents.kit import AgentContract
from tests.conftest import Mngr


class TestOpencode(AgentContract):
    """By the checks that every coding agent must pass."""

    kind = "opencode"
    soon = {"retry-after-ms": "10"}

    def env(self, model: ModelServer, coder: Mngr) -> dict[str, str]:
        options = {"baseURL": model.url("opencode") + "/v1", "apiKey": "{env:FAKE_KEY}"}
        known = {
            "name": "Fake",
            "limit": {"context": 200000, "output": 8000},
            "cost": {"input": 3, "output": 15},
        }
        provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"fake-model": known}}
        config = {
            "model": "fake/fake-model",
            "small_model": "fake/fake-model",
            "enabled_providers": ["fake"],
            "provider": {"fake": provider},
        }
        place = Path(coder.env["HOME"]) / ".config/opencode"
        place.mkdir(parents=True)
        (place / "opencode.jsonc").write_text(f"// a user's own\n{json.dumps(config)[:-1]},\n}}\n")
        return {"FAKE_KEY": "hush-hush"}
