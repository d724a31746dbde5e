"""`mngr tutorial` with a real coding agent whose model makes mistakes on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram, run_git

KIND = "claude"
SCRIPT = """#!/bin/sh

##############################
# Open
##############################

# open it
shop open

##############################
# Sell
##############################
"""
SHOP = """#!/bin/sh
case "$1 $2" in
*--help*) printf 'usage: shop [open|sell]\\n\\ncommands:\\n  open  open it\\n  sell  sell something\\n' ;;
*--fast) echo "shop $1: unknown option --fast" >&2; exit 2 ;;
open*) touch ~/.open; echo open ;;
sell*) if test -e ~/.open; then echo "sold $2"; else echo "shop sell: it is closed" >&2; exit 3; fi ;;
esac
"""
TEST = '''from mngr.e2e import E2eSession, expect


def test_open(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # open the shop
    shop open
    """)
    expect(e2e.run("shop open")).to_succeed()
'''


@pytest.fixture
def project(coder: MngrProgram, tmp_path: Path) -> MngrProgram:
    """A tutorial of a shop with one block that has no test and one empty section."""
    program = tmp_path / "bin" / "shop"
    program.parent.mkdir()
    program.write_text(SHOP)
    program.chmod(0o755)
    coder.env["PATH"] = f"{program.parent}:{coder.env['PATH']}"
    coder.env["MNGR__PROJECT__PROGRAM"] = "shop"
    coder.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -p no:cacheprovider"
    coder.env["MNGR__YOLO__ANYWHERE"] = "true"
    coder.env["ANTHROPIC_AUTH_TOKEN"] = "hush-hush"
    (coder.repo / "tests").mkdir()
    (coder.repo / "tests" / "test_other.py").write_text("def test_other() -> None:\n    pass\n")
    (coder.repo / "tutorial.sh").write_text(SCRIPT)
    run_git(coder.repo, "add", "-A")
    run_git(coder.repo, "commit", "-qm", "a tutorial")
    coder("trust", "--yes")
    return coder


def test_sync_makes_the_agent_correct_its_mistakes(project: MngrProgram) -> None:
    """The agent writes a wrong citation and changes a file that it must not change."""
    steps = [
        {"text": "I write a test.", "write": {"path": "tests/test_open.py", "content": TEST}},
        {"sh": "echo more >> README.md && git add -A && git commit -qm '[ADD_TEST] open'"},
        {"text": "Done."},
        {"sh": "sed -i 's/open the shop/open it/' tests/*.py; git checkout -q HEAD^ -- README.md; git commit -qam x"},
        {"text": "Mended."},
    ]
    with ModelServer(steps) as model:
        project.env["ANTHROPIC_BASE_URL"] = model.url("sync")
        result = project("tutorial", "sync", "--agent", "claude", "--yolo", "--rounds", "3")
    agent = project.list_agents()[0]
    assert result.out.splitlines() == [
        "open-it: tests/test_open.py::test_open",
        f"the work is on {agent['branch']}: git diff ...{agent['branch']}",
    ]
    assert "round 1: problems that remain: 3\nround 2: done\n" in result.err
    rows = project.run_json("transcript", agent["name"])["transcript"]
    prompts = [row["text"] for row in rows if row["role"] == "user"]
    assert len(prompts) == 2 and "shop open" in prompts[0]
    assert "tests/test_open.py:5: stale: " in prompts[1] and "README.md was changed" in prompts[1]
    assert agent["state"] == "STOPPED"


def test_fill_makes_the_agent_correct_its_mistakes_and_reports_what_misled_it(project: MngrProgram) -> None:
    """The agent also changes another block, and some of its calls of the program fail."""
    block = r"# sell an apple\nshop sell apple"
    steps = [
        {"text": "I try it.", "sh": "shop sell --help; shop sell --fast"},
        {"sh": "shop sell apple"},
        {"sh": "shop open"},
        {"sh": "shop sell apple"},
        {"sh": f"printf '\\n{block}\\n' >> tutorial.sh; sed -i 's/open it/open up/' tutorial.sh; git commit -qam x"},
        {"text": "Done."},
        {"sh": "sed -i 's/open up/open it/' tutorial.sh && git commit -qam '[FIX_TUTORIAL] as it was'"},
        {"text": "Mended."},
    ]
    with ModelServer(steps) as model:
        project.env["ANTHROPIC_BASE_URL"] = model.url("fill")
        result = project("tutorial", "fill", "--yolo", "--output", "fill.patch")
    assert result.err.splitlines()[-5:] == [
        "tutorial.sh:12: Sell: # sell an apple: works",
        "What misled the agent:",
        "  shop sell: 2 of 4 calls failed, 2 were repeated; no such option: --fast; worked only after: shop open",
        "    it printed: shop sell: unknown option --fast",
        "    it printed: shop sell: it is closed",
    ]
    filler = next(agent for agent in project.list_agents() if agent["kind"] == "claude")
    rows = project.run_json("transcript", filler["name"])["transcript"]
    prompts = [row["text"] for row in rows if row["role"] == "user"]
    assert len(prompts) == 2 and "tutorial.sh:7: this line was changed or removed: # open it" in prompts[1]
    subprocess.run(["git", "apply", "fill.patch"], cwd=project.repo, check=True)
    assert (project.repo / "tutorial.sh").read_text() == SCRIPT + "\n# sell an apple\nshop sell apple\n"
