from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from mngr.testkit.contract.mngr_program import clean_up


def test_clean_up_ends_agents_of_the_directory_and_no_other_process(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    agent = subprocess.Popen(["sleep", "1000"], env={**os.environ, "MNGR_AGENT_DIR": f"{root}/home/agents/a-1"})
    shared = subprocess.Popen(["sleep", "1000"], env={**os.environ, "MNGR_HOME": f"{root}/home"})
    try:
        clean_up(root)
        assert agent.wait(10) == -signal.SIGKILL
        assert shared.poll() is None and not root.exists()
    finally:
        for process in (agent, shared):
            process.kill()
            process.wait()
