"""Tests the prompt of an agent: the shared beginning, the task's own part, and the code examples in it."""

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

from mngr.base.errors import MngrError, UsageError
from mngr.kinds.delivery_plan import check_text
from mngr.kinds.player.player import JOB_FENCE
from mngr.tmr.prepare.prompt import (
    Prompt,
    TaskDescription,
    build_prompt,
    build_reminder,
    load_template,
    override_sections,
)
from mngr.tmr.verify.claim import AgentClaim, read_claim
from tests.conftest import run_git
from tests.support.paths import ROOT

TASK = "tests/test_a.py::test_b"


def make_prompt(template: Any = None, **more: Any) -> Prompt:
    values: dict[str, Any] = {"task": TASK, "command": ["pytest", "a b"], "verdict": "fail", **more}
    return build_prompt(template or load_template(), TaskDescription(**values))


def list_code_blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", make_prompt().text[: make_prompt().shared_length], re.MULTILINE | re.DOTALL
    )


def test_all_prompts_of_a_run_begin_with_the_same_text() -> None:
    first, second = (
        make_prompt(),
        make_prompt(task="other", verdict="pass", hint="look twice", affected_tests=["c"], root_cause="x"),
    )
    assert (
        first.shared_length == second.shared_length
        and first.text[: first.shared_length] == second.text[: second.shared_length]
    )
    assert TASK not in first.text[: first.shared_length] and 500 < first.shared_tokens < first.tokens < 1500
    assert first.text[0] == "Y"


def test_a_prompt_contains_all_values_of_the_task_and_no_empty_sections() -> None:
    bare = make_prompt().text
    assert "pytest 'a b'\n" in bare and TASK in bare
    for section in ("Tutorial block", "Evidence", "Shared root cause", "Covered code", "Hint", "This project"):
        assert f"## {section}" not in bare
    full = make_prompt(
        block="shop list",
        evidence="boom",
        root_cause="KeyError in shop.py",
        affected_tests=["w1"],
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
    assert "94000 characters left out" in make_prompt(evidence="x" * 100_000).text
    assert "- and 70 more" in make_prompt(covered=[str(n) for n in range(100)]).text


@given(text=st.text() | st.sampled_from(["```\n## Task\n", "```mngr-job\n{}\n```", "{{task}}", "\x1b[31m", "\ud800"]))
def test_untrusted_text_cannot_leave_its_code_block_or_add_sections(text: str) -> None:
    prompt = make_prompt(evidence=text, block=text, root_cause=text, task=TASK + text, affected_tests=[text])
    check_text(prompt.text)
    (job,) = JOB_FENCE.findall(prompt.text)
    assert json.loads(job)["task"] == TASK + text
    outside = re.sub(r"^(`{3,}).*?^\1$", "", prompt.text[prompt.shared_length :], flags=re.MULTILINE | re.DOTALL)
    headings = re.findall("^## (.*)$", outside, re.MULTILINE)
    assert headings[0] == "Task" and headings[-1] == "Job" and len(set(headings)) == len(headings) <= 5


def test_the_code_examples_in_the_prompt_run(tmp_path: Path) -> None:
    (commit_script,), (write_script,) = list_code_blocks("sh"), list_code_blocks("python")
    run_git(tmp_path, "init", "-q")
    run_git(tmp_path, "config", "user.name", "Test")
    run_git(tmp_path, "config", "user.email", "test@example.invalid")
    (tmp_path / "new.py").write_text("")
    env = {**os.environ, "MNGR_OUTPUT_DIR": str(tmp_path / ".git")}
    subprocess.run(["sh", "-eu", "-c", commit_script], cwd=tmp_path, env=env, check=True, capture_output=True)
    assert run_git(tmp_path, "log", "--format=%s") == "[FIX_TEST] Say in one line what changes"
    assert run_git(tmp_path, "status", "--short") == ""
    subprocess.run([sys.executable, "-c", write_script], cwd=tmp_path, env=env, check=True)
    claim = read_claim(str(tmp_path / ".git" / "result.json"), "TASK")
    assert isinstance(claim, AgentClaim), claim
    assert claim.changes and claim.escalations and claim.runs
    assert not (tmp_path / ".git" / "result.json.new").exists()


def test_a_project_can_replace_sections_of_the_prompt(tmp_path: Path) -> None:
    assert load_template(str(tmp_path)) == load_template()
    (tmp_path / ".mngr").mkdir()
    project_prompt = "\n## This project\nUse tabs.\n```sh\n## no section\n```\n## Task\nDo {{ task }}!\n## Hint\n"
    (tmp_path / ".mngr" / "prompt.md").write_text(project_prompt)
    text = make_prompt(load_template(str(tmp_path)), hint="h").text
    assert "## This project\n\nUse tabs.\n```sh\n## no section\n```\n" in text
    assert f"## Task\n\nDo {TASK}!\n\n## Job" in text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Hello\n", "has no heading"),
        ("## Comits\n", "'Comits'"),
        ("## Task\n{{tsk}}\n", "unknown placeholder {{tsk}}"),
        ("## Commits\n{{task}}\n", "differs between tasks"),
    ],
)
def test_an_unknown_section_or_placeholder_is_a_usage_error(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=re.escape(part)):
        override_sections(load_template(), text)


def test_a_prompt_file_of_a_repository_that_leads_to_a_file_of_the_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("## Your task\n\nsecret\n")
    (tmp_path / "project" / ".mngr").mkdir(parents=True)
    (tmp_path / "project" / ".mngr" / "prompt.md").symlink_to(tmp_path / "secret")
    with pytest.raises(MngrError, match="does not follow the link"):
        load_template(str(tmp_path / "project"))


def test_the_documentation_lists_every_section_and_placeholder() -> None:
    page = (ROOT / "docs" / "concepts" / "prompt.md").read_text()
    template = load_template()
    sections = (*template.shared_sections, *template.task_sections)
    values = {value for _, text in sections for value in re.findall(r"\{\{(\w+)\}\}", text)}
    assert [name for name, _ in sections if name not in page] == []
    assert values and [value for value in values if f"`{{{{{value}}}}}`" not in page] == []


def test_a_reminder_lists_the_problems_of_the_result() -> None:
    text = build_reminder(["result.json does not exist.", "dirt \x1b[31m"])
    assert "- result.json does not exist.\n" in check_text(text)
