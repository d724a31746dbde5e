"""Runs whose agents and tests are on the same cluster of three nodes."""

from __future__ import annotations

import json
import sys

from mngr.testkit.contract.mngr_program import MngrProgram, commit_file
from tests.providers.slurm.test_slurm import assert_nothing_is_left, nodes
from tests.support.hosts.slurm import NODES, Slurm

__all__ = ["nodes"]

TEST = """\
import os, pathlib

def test_{name}():
    with pathlib.Path({log!r}).open("a") as log:
        log.write(os.uname().nodename + "\\n")
"""
STEPS = [
    {"run": "echo '# seen' >>$(echo \"$TEST\" | cut -d: -f1)"},
    {"commit": "[IMPROVE_TEST] Seen"},
    {"result": {"outcome": "improved", "before": "pass", "after": "pass"}},
]
RUN = ("tmr", "run", "--name", "r", "--on", ".slurm", "--test-on", ".slurm", "--isolation", "off")


def test_agents_and_tests_share_a_cluster_and_no_test_runs_on_this_machine(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    mngr.env["MNGR__PROVIDERS__SLURM__CPUS"] = "16"  # The cluster has room for three hosts only.
    mngr.env["MNGR__PROVIDERS__SLURM__COST_PER_HOUR"] = "3600"
    log = nodes.shared / "home" / "log"
    for name in "abcd":
        commit_file(mngr.repo, f"test_{name}.py", TEST.format(name=name, log=str(log)))
    agents = ("--agent", "player", "--agent-arg", json.dumps(STEPS), "--max-agents", "4", "--agents-per-host", "1")
    mngr(*RUN, *agents, "--runs", "1", "--verify-runs", "1", timeout=150)
    status = mngr.run_json("tmr", "status", "r")
    assert [(task["state"], task["verdict"]) for task in status["tasks"]] == [("settled", "confirmed")] * 4
    names = log.read_text().split()
    assert set(names) <= set(NODES) and len(names) >= 12  # of the baseline, the receipts and the integration
    assert_nothing_is_left(mngr, nodes)
