"""The examples in the documents that use Claude Code run with the real program and a scripted model."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram
from tests.support.paths import ROOT

KIND = "claude"
BLOCK = re.compile(r"^```sh claude\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [page for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))) if BLOCK.search(page.read_text())]
STEPS = [
    {"text": "I will write it.", "sh": "echo done > done.txt; git add .; git commit -qm 'Do the work'"},
    {"text": "It is done."},
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_with_claude_run(coder: MngrProgram, page: Path) -> None:
    with ModelServer(STEPS) as model:
        coder.env.update({"ANTHROPIC_BASE_URL": model.url("claude"), "ANTHROPIC_AUTH_TOKEN": "any"})
        for text in BLOCK.findall(page.read_text()):
            completed = subprocess.run(
                ["sh", "-eu", "-c", text], cwd=coder.repo, env=coder.env, stdin=subprocess.DEVNULL, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100, check=False,
            )  # fmt: skip
            assert completed.returncode == 0, completed.stdout
    assert coder("exec", "fix", "--", "cat", "done.txt").out == "done\n"
