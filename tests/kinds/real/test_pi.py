"""pi, for real."""

from __future__ import annotations

import json
from pathlib import Path

from mngr.kinds.pi.kind import PiKind
from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram
from tests.kinds.real.kit import AgentContract


class TestPi(AgentContract):
    """By the checks that every coding agent must pass."""

    kind = "pi"
    features = PiKind.features
    soon = {"retry-after-ms": "10"}

    def env(self, model: ModelServer, coder: MngrProgram) -> dict[str, str]:
        known = {"id": "fake-model", "cost": {"input": 3, "output": 15, "cacheRead": 0, "cacheWrite": 0}}
        where = {"baseUrl": model.url("pi") + "/v1", "api": "openai-completions", "apiKey": "FAKE_KEY"}
        settings = {
            "defaultProvider": "fake",
            "defaultModel": "fake-model",
            "retry": {"maxRetries": 1, "baseDelayMs": 100},
        }
        place = Path(coder.env["HOME"]) / ".pi/agent"
        place.mkdir(parents=True)
        (place / "models.json").write_text(json.dumps({"providers": {"fake": {**where, "models": [known]}}}))
        (place / "settings.json").write_text(json.dumps(settings))
        return {"FAKE_KEY": "hush-hush", "MNGR__AGENTS__PI__CARRY": '["settings"]'}


class TestPiBefore(TestPi):
    """And an older one."""

    version = "0.67.1"
