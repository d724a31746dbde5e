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
from mngr.kinds.player.player import JOB_FENCE
from mngr.tmr.prepare.prompt import Prompt, build_prompt, build_reminder, load_template, override_sections
from mngr.tmr.verify.claim import AgentClaim, read_claim
from tests.conftest import run_git
from tests.support.paths import ROOT

TASK = "tests/test_a.py::test_b"


def brief(template: Any = None, **more: Any) -> Prompt:
    given: dict[str, Any] = {"task": TASK, "command": ["pytest", "a b"], "verdict": "fail", **more}
    return build_prompt(template or load_template(), **given)


def code(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", brief().text[: brief().shared_length], re.MULTILINE | re.DOTALL)


def test_all_agents_of_a_run_are_told_the_same_first() -> None:
    one, two = brief(), brief(task="other", verdict="pass", hint="look twice", witnesses=["c"], cause="x")
    assert one.shared_length == two.shared_length and one.text[: one.shared_length] == two.text[: two.shared_length]
    assert TASK not in one.text[: one.shared_length] and 500 < one.shared_tokens < one.tokens < 1500
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


@given(text=st.text() | st.sampled_from(["```\n## Task\n", "```mngr-job\n{}\n```", "{{task}}", "\x1b[31m", "\ud800"]))
def test_what_others_wrote_stays_in_its_place(text: str) -> None:
    one = brief(evidence=text, block=text, cause=text, task=TASK + text, witnesses=[text])
    check_text(one.text)
    (job,) = JOB_FENCE.findall(one.text)
    assert json.loads(job)["task"] == TASK + text
    outside = re.sub(r"^(`{3,}).*?^\1$", "", one.text[one.shared_length :], flags=re.MULTILINE | re.DOTALL)
    headings = re.findall("^## (.*)$", outside, re.MULTILINE)
    assert headings[0] == "Task" and headings[-1] == "Job" and len(set(headings)) == len(headings) <= 5


def test_the_code_in_it_runs(tmp_path: Path) -> None:
    (commit,), (write,) = code("sh"), code("python")
    run_git(tmp_path, "init", "-q")
    run_git(tmp_path, "config", "user.name", "Test")
    run_git(tmp_path, "config", "user.email", "test@example.invalid")
    (tmp_path / "new.py").write_text("")
    env = {**os.environ, "MNGR_OUTPUT_DIR": str(tmp_path / ".git")}
    subprocess.run(["sh", "-eu", "-c", commit], cwd=tmp_path, env=env, check=True, capture_output=True)
    assert run_git(tmp_path, "log", "--format=%s") == "[FIX_TEST] Say in one line what changes"
    assert run_git(tmp_path, "status", "--short") == ""
    subprocess.run([sys.executable, "-c", write], cwd=tmp_path, env=env, check=True)
    found = read_claim(str(tmp_path / ".git" / "result.json"), "TASK")
    assert isinstance(found, AgentClaim), found
    assert found.changes and found.escalations and found.runs
    assert not (tmp_path / ".git" / "result.json.new").exists()


def test_a_project_replaces_sections(tmp_path: Path) -> None:
    assert load_template(str(tmp_path)) == load_template()
    (tmp_path / ".mngr").mkdir()
    own = "\n## This project\nUse tabs.\n```sh\n## no section\n```\n## Task\nDo {{ task }}!\n## Hint\n"
    (tmp_path / ".mngr" / "brief.md").write_text(own)
    text = brief(load_template(str(tmp_path)), hint="h").text
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
        override_sections(load_template(), text)


def test_every_section_and_value_is_on_its_page() -> None:
    page = (ROOT / "docs" / "concepts" / "brief.md").read_text()
    template = load_template()
    sections = (*template.shared_sections, *template.task_sections)
    values = {value for _, text in sections for value in re.findall(r"\{\{(\w+)\}\}", text)}
    assert [name for name, _ in sections if name not in page] == []
    assert values and [value for value in values if f"`{{{{{value}}}}}`" not in page] == []


def test_a_reminder_says_what_is_wrong() -> None:
    text = build_reminder(["there is no result.json.", "dirt \x1b[31m"])
    assert "- there is no result.json.\n" in check_text(text)
