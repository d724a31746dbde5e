"""The contract with the real pi."""

from __future__ import annotations

import json
from pathlib import Path

from mngr.kinds.pi.kind import PiKind
from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram
from tests.kinds.real.kit import AgentContract


class TestPi(AgentContract):
    """The contract of every coding agent."""

    kind = "pi"
    features = PiKind.features
    soon = {"retry-after-ms": "10"}

    def env(self, model: ModelServer, coder: MngrProgram) -> dict[str, str]:
        model_entry = {"id": "fake-model", "cost": {"input": 3, "output": 15, "cacheRead": 0, "cacheWrite": 0}}
        provider = {"baseUrl": model.url("pi") + "/v1", "api": "openai-completions", "apiKey": "FAKE_KEY"}
        settings = {
            "defaultProvider": "fake",
            "defaultModel": "fake-model",
            "retry": {"maxRetries": 1, "baseDelayMs": 100},
        }
        config_dir = Path(coder.env["HOME"]) / ".pi/agent"
        config_dir.mkdir(parents=True)
        (config_dir / "models.json").write_text(
            json.dumps({"providers": {"fake": {**provider, "models": [model_entry]}}})
        )
        (config_dir / "settings.json").write_text(json.dumps(settings))
        return {"FAKE_KEY": "hush-hush", "MNGR__AGENTS__PI__CARRY": '["settings"]'}


class TestPiBefore(TestPi):
    """The contract with an older version."""

    version = "0.67.1"
