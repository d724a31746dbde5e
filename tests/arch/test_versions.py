"""The versions of coding agents that are told are those that are tried."""

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


def run_by(target: str) -> set[str]:
    """The agents with which a target of the Makefile runs the tests."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    argv = ["make", "-n", "-C", str(ROOT), target]
    shown = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    asked = re.search(r'--agents "(.*?)"', shown)
    fetched = re.search(r"scripts/agents\.sh (.*)", shown)
    assert asked and fetched and asked[1] == fetched[1]
    return set(asked[1].split())


def both(*kinds: str) -> set[str]:
    return {name for kind in kinds for name in (kind, f"{kind}@{TOLD[kind][1]}")}


def test_the_pinned_versions_are_told() -> None:
    text = (ROOT / "scripts/agents.sh").read_text()
    pinned = dict(re.findall(r"^ +(\w+)\) echo \S*?[@=](\d[\d.]*) ;;$", text, re.MULTILINE))
    assert {kind: versions[0] for kind, versions in TOLD.items()} == pinned


def test_the_older_versions_are_told() -> None:
    tried = set()
    for path in (ROOT / "tests/kinds/real").glob("test_*.py"):
        for one in vars(importlib.import_module(f"tests.kinds.real.{path.stem}")).values():
            if isinstance(one, type) and issubclass(one, AgentContract) and one.version:
                tried.add((one.kind, one.version))
    assert tried == {(kind, versions[1]) for kind, versions in TOLD.items()}


def test_both_versions_are_run() -> None:
    assert run_by("test-agents") == {"claude", "codex", "opencode"}
    assert run_by("test-all") == both(*TOLD)
