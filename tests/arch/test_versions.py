"""The documented versions of coding agents are the ones that the tests run."""

from __future__ import annotations

import importlib
import os
import re
import subprocess

from tests.kinds.real.kit import AgentContract
from tests.support.paths import ROOT

TOLD = {
    kind: (pinned, older)
    for kind, pinned, older in re.findall(
        r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|$",
        (ROOT / "docs/guide/agents.md").read_text(),
        re.MULTILINE,
    )
}


def list_agents_of_target(target: str) -> set[str]:
    """Return the agents with which a Makefile target runs the tests."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    argv = ["make", "-n", "-C", str(ROOT), target]
    output = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    agents_option = re.search(r'--agents "(.*?)"', output)
    installed = re.search(r"scripts/agents\.sh (.*)", output)
    assert agents_option and installed and agents_option[1] == installed[1]
    return set(agents_option[1].split())


def list_both_versions(*kinds: str) -> set[str]:
    return {name for kind in kinds for name in (kind, f"{kind}@{TOLD[kind][1]}")}


def test_the_documented_versions_are_the_pinned_ones() -> None:
    text = (ROOT / "scripts/agents.sh").read_text()
    pinned = dict(re.findall(r"^ +(\w+)\) echo \S*?[@=](\d[\d.]*) ;;$", text, re.MULTILINE))
    assert {kind: versions[0] for kind, versions in TOLD.items()} == pinned


def test_the_documented_older_versions_are_tested() -> None:
    tested = set()
    for path in (ROOT / "tests/kinds/real").glob("test_*.py"):
        for value in vars(importlib.import_module(f"tests.kinds.real.{path.stem}")).values():
            if isinstance(value, type) and issubclass(value, AgentContract) and value.version:
                tested.add((value.kind, value.version))
    assert tested == {(kind, versions[1]) for kind, versions in TOLD.items()}


def test_make_test_all_runs_both_versions() -> None:
    assert list_agents_of_target("test-agents") == {"claude", "codex", "opencode"}
    assert list_agents_of_target("test-all") == list_both_versions(*TOLD)
