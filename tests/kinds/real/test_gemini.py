"""The contract with the real Gemini CLI, and tests of its own features."""

from __future__ import annotations

import json
from pathlib import Path

from mngr.kinds.gemini.kind import GeminiKind
from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram, wait_for
from tests.kinds.real.kit import AgentContract


class TestGemini(AgentContract):
    """The contract of every coding agent."""

    kind = "gemini"
    features = GeminiKind.features
    obeys = ("/help", "!ls")
    asker = "ask_user"

    def env(self, model: ModelServer, coder: MngrProgram) -> dict[str, str]:
        config_dir = Path(coder.env["HOME"]) / ".gemini"
        config_dir.mkdir()
        (config_dir / "settings.json").write_text(json.dumps({"general": {"maxAttempts": 2}}))
        return {
            "GOOGLE_GEMINI_BASE_URL": model.url("gemini"),
            "GEMINI_API_KEY": "hush-hush",
            "GEMINI_MODEL": "gemini-2.5-pro",
            "MNGR__AGENTS__GEMINI__CARRY": '["settings"]',
        }

    def test_stop_and_destroy_leave_no_process(self, fleet: MngrProgram) -> None:
        def processes() -> list[str]:
            """Return the names of the processes whose environment names the agent."""
            names: list[str] = []
            for environ in Path("/proc").glob("[0-9]*/environ"):
                try:
                    if f"MNGR_AGENT_ID={agent}".encode() in environ.read_bytes():
                        names.append((environ.parent / "comm").read_text().strip())
                except OSError:
                    continue
            return names

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
    """The contract with an older version."""

    version = "0.47.0"
