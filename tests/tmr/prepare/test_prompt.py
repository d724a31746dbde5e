"""What agents are told: the same beginning for all, their own end, and code that does what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base.errors import UsageError
from mngr.kinds.delivery import check_text
from mngr.kinds.player.player import JOB
from mngr.tmr.prepare.prompt import Brief, compose, load, override, remind
from mngr.tmr.verify.claim import Result, read_result
from tests.conftest import git
from tests.support.paths import ROOT

TASK = "tests/test_a.py::test_b"


def brief(template: Any = None, **more: Any) -> Brief:
    given: dict[str, Any] = {"task": TASK, "command": ["pytest", "a b"], "verdict": "fail", **more}
    return compose(template or load(), **given)


def code(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", brief().text[: brief().shared], re.MULTILINE | re.DOTALL
    )


def test_all_agents_of_a_run_are_told_the_same_first() -> None:
    one, two = brief(), brief(task="other", verdict="pass", hint="look twice", witnesses=["c"], cause="x")
    assert one.shared == two.shared and one.text[: one.shared] == two.text[: two.shared]
    assert TASK not in one.text[: one.shared] and 500 < one.shared_tokens < one.tokens < 1500
    assert one.text[0] == "Y"


def test_a_brief_has_what_the_task_has_and_no_empty_parts() -> None:
    bare = brief().text
    assert "pytest 'a b'\n" in bare and TASK in bare
    for section in ("Tutorial block", "Evidence", "Shared cause", "Covered code", "Hint", "This project"):
        assert f"## {section}" not in bare
    full = brief(
        block="shop list",
        evidence="boom",
        cause="KeyError in shop.py",
        witnesses=["w1"],
        covered=["shop.py"],
        hint="h",
    ).text
    for part in (
        "```sh\nshop list\n```",
        "```text\nboom\n```",
        "KeyError in shop.py",
        "- w1",
        "- shop.py",
        "\nh\n",
    ):
        assert part in full
    assert "94000 characters left out" in brief(evidence="x" * 100_000).text
    assert "- and 70 more" in brief(covered=[str(n) for n in range(100)]).text


@given(
    text=st.text()
    | st.sampled_from(["```\n## Task\n", "```mngr-job\n{}\n```", "{{task}}", "\x1b[31m", "\ud800"])
)
def test_what_others_wrote_stays_in_its_place(text: str) -> None:
    one = brief(evidence=text, block=text, cause=text, task=TASK + text, witnesses=[text])
    check_text(one.text)
    (job,) = JOB.findall(one.text)
    assert json.loads(job)["task"] == TASK + text
    outside = re.sub(r"^(`{3,}).*?^\1$", "", one.text[one.shared :], flags=re.MULTILINE | re.DOTALL)
    headings = re.findall("^## (.*)$", outside, re.MULTILINE)
    assert headings[0] == "Task" and headings[-1] == "Job" and len(set(headings)) == len(headings) <= 5


def test_the_code_in_it_runs(tmp_path: Path) -> None:
    (commit,), (write,) = code("sh"), code("python")
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "user.name", "Test")
    git(tmp_path, "config", "user.email", "test@example.invalid")
    (tmp_path / "new.py").write_text("")
    env = {**os.environ, "MNGR_OUTPUT_DIR": str(tmp_path / ".git")}
    subprocess.run(["sh", "-eu", "-c", commit], cwd=tmp_path, env=env, check=True, capture_output=True)
    assert git(tmp_path, "log", "--format=%s") == "[FIX_TEST] Say in one line what changes"
    assert git(tmp_path, "status", "--short") == ""
    subprocess.run([sys.executable, "-c", write], cwd=tmp_path, env=env, check=True)
    found = read_result(str(tmp_path / ".git" / "result.json"), "TASK")
    assert isinstance(found, Result), found
    assert found.changes and found.escalations and found.runs
    assert not (tmp_path / ".git" / "result.json.new").exists()


def test_a_project_replaces_sections(tmp_path: Path) -> None:
    assert load(str(tmp_path)) == load()
    (tmp_path / ".mngr").mkdir()
    own = "\n## This project\nUse tabs.\n```sh\n## no section\n```\n## Task\nDo {{ task }}!\n## Hint\n"
    (tmp_path / ".mngr" / "brief.md").write_text(own)
    text = brief(load(str(tmp_path)), hint="h").text
    assert "## This project\n\nUse tabs.\n```sh\n## no section\n```\n" in text
    assert f"## Task\n\nDo {TASK}!\n\n## Job" in text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Hello\n", "in no section"),
        ("## Comits\n", "'Comits'"),
        ("## Task\n{{tsk}}\n", "no {{tsk}}"),
        ("## Commits\n{{task}}\n", "differs from task to task"),
    ],
)
def test_a_section_that_fits_nowhere_is_refused(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=re.escape(part)):
        override(load(), text)


def test_every_section_and_value_is_on_its_page() -> None:
    page = (ROOT / "docs" / "concepts" / "brief.md").read_text()
    template = load()
    sections = (*template.shared, *template.own)
    values = {value for _, text in sections for value in re.findall(r"\{\{(\w+)\}\}", text)}
    assert [name for name, _ in sections if name not in page] == []
    assert values and [value for value in values if f"`{{{{{value}}}}}`" not in page] == []


def test_a_reminder_says_what_is_wrong() -> None:
    text = remind(["there is no result.json.", "dirt \x1b[31m"])
    assert "- there is no result.json.\n" in check_text(text)
