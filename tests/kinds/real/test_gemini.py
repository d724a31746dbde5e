"""Gemini CLI, for real."""

from __future__ import annotations

import json
from pathlib import Path

from mngr.kinds.gemini.kind import GeminiKind
from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram, wait_for
from tests.kinds.real.kit import AgentContract


class TestGemini(AgentContract):
    """By the checks that every coding agent must pass."""

    kind = "gemini"
    features = GeminiKind.features
    obeys = ("/help", "!ls")
    asker = "ask_user"

    def env(self, model: ModelServer, coder: MngrProgram) -> dict[str, str]:
        place = Path(coder.env["HOME"]) / ".gemini"
        place.mkdir()
        (place / "settings.json").write_text(json.dumps({"general": {"maxAttempts": 2}}))
        return {
            "GOOGLE_GEMINI_BASE_URL": model.url("gemini"),
            "GEMINI_API_KEY": "hush-hush",
            "GEMINI_MODEL": "gemini-2.5-pro",
            "MNGR__AGENTS__GEMINI__CARRY": '["settings"]',
        }

    def test_nothing_of_it_is_left(self, fleet: MngrProgram) -> None:
        def processes() -> list[str]:
            """Those in whose environment the agent is named."""
            found: list[str] = []
            for place in Path("/proc").glob("[0-9]*/environ"):
                try:
                    if f"MNGR_AGENT_ID={agent}".encode() in place.read_bytes():
                        found.append((place.parent / "comm").read_text().strip())
                except OSError:
                    continue
            return found

        self.create(fleet, "foo")
        agent = fleet.get_agent("foo")["id"]
        assert any("node" in name or "gemini" in name for name in processes())
        fleet("stop", "foo")
        assert processes() == []
        fleet("start", "foo")
        wait_for(lambda: fleet.get_agent("foo")["state"] == "WAITING")
        fleet("destroy", "--force", "foo")
        assert processes() == []


class TestGeminiBefore(TestGemini):
    """And an older one."""

    version = "0.47.0"
