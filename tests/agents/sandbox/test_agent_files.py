"""Tests that mngr follows no link that a sandboxed agent puts into its own directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import MngrProgram, run_git

# A coding agent that does nothing. Any coding agent could run the hostile commands of these tests.
PROGRAM = """#!/bin/sh
case $1 in --version) echo 2.1.200; exit ;; esac
exec sleep 1000
"""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory of the user with files that an agent must neither read nor change."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "private.jsonl").write_text('{"secret": "hunter2"}\n')
    return directory


def create_agent(mngr: MngrProgram, tmp_path: Path, kind: str) -> None:
    """Create a sandboxed coding agent `foo` of this kind."""
    program = tmp_path / kind
    program.write_text(PROGRAM)
    program.chmod(0o755)
    mngr("config", "set", f"agents.{kind}.program", str(program))
    mngr("create", "foo", kind, "--sandbox", "--network", "off")


def run_inside(mngr: MngrProgram, outside: Path, line: str) -> None:
    """Run a hostile command line as the agent. $O is the directory outside."""
    mngr("exec", "foo", "--", "sh", "-ec", f'O={outside}; cd "$MNGR_AGENT_DIR"; {line}')


def assert_untouched(outside: Path) -> None:
    assert [path.name for path in outside.iterdir()] == ["private.jsonl"]
    assert (outside / "private.jsonl").read_text() == '{"secret": "hunter2"}\n'


LINKS = {
    "claude": [
        'mkdir -p claude/projects/a; echo {} >claude/projects/a/b.jsonl; ln -s "$O" claude/projects/$(pwd | tr -c "a-zA-Z0-9\\n" -); '
        'ln -s "$O" "claude/projects/$(printf %s "$MNGR_WORK_DIR" | tr -c a-zA-Z0-9 -)"',
        'mkdir -p claude/projects; ln -s "$O" claude/projects/x',
        'ln -s "$O" claude/projects',
    ],
    "pi": [
        'echo {} >pi/sessions/1_a.jsonl; echo 1_a.jsonl >pi/session; ln -s "$O/private.jsonl" pi/new',
        'rm -r pi/sessions; ln -s "$O" pi/sessions',
    ],
    "gemini": ['rm -r gemini/.gemini/tmp; ln -s "$O" gemini/.gemini/tmp'],
    "opencode": ['ln -s "$O/private.jsonl" opencode/session'],
    "codex": ['rm -rf codex/sessions; mkdir -p codex/sessions/1; ln -s "$O" codex/sessions/1/2'],
}


@pytest.mark.parametrize(("kind", "line"), [(kind, line) for kind, lines in LINKS.items() for line in lines])
def test_start_follows_no_link_of_a_coding_agent(
    mngr: MngrProgram, tmp_path: Path, outside: Path, kind: str, line: str
) -> None:
    create_agent(mngr, tmp_path, kind)
    run_inside(mngr, outside, line)
    mngr("stop", "foo")
    mngr("start", "foo")
    assert_untouched(outside)
    agent_dir = mngr.home / "agents" / mngr.get_agent("foo")["id"]
    assert b"hunter2" not in (agent_dir / "command").read_bytes()
    assert not [path for path in agent_dir.rglob("private.jsonl") if not path.is_symlink()]


RESTORED = {
    "claude": 'ln -s "$O" claude/commands; rm -f claude/sessions; ln -s "$O/new" claude/sessions',
    "gemini": 'rm -r gemini/.gemini; ln -s "$O" gemini/.gemini',
    "pi": 'rm -r pi/sessions; ln -s "$O" pi/sessions; ln -s "$O" pi/prompts',
    "opencode": 'rm -r opencode/config; ln -s "$O" opencode/config',
    "codex": 'ln -s "$O" codex/prompts',
}


@pytest.mark.parametrize("kind", RESTORED)
def test_undestroy_and_clone_follow_no_link_of_a_coding_agent(
    mngr: MngrProgram, tmp_path: Path, outside: Path, kind: str
) -> None:
    user_dirs = [tmp_path / "user" / name for name in (".claude", ".pi/agent", ".codex")]
    for user_dir, folder in zip(user_dirs, ("commands", "prompts", "prompts"), strict=True):
        (user_dir / folder).mkdir(parents=True)
        (user_dir / folder / "mark.md").write_text("x")
    if kind in ("claude", "pi", "codex"):
        mngr("config", "set", f"agents.{kind}.carry", json.dumps(["commands" if kind == "claude" else "prompts"]))
    create_agent(mngr, tmp_path, kind)
    run_inside(
        mngr, outside, RESTORED[kind].replace("ln -s", "rm -rf claude/commands pi/prompts codex/prompts; ln -s", 1)
    )
    mngr("clone", "foo", "bar", code=None)
    assert_untouched(outside)
    mngr("destroy", "--force", "foo")
    mngr("undestroy", "foo", code=None)
    assert_untouched(outside)


@pytest.mark.parametrize("kind", ["claude", "pi"])
def test_transcript_reads_no_file_through_a_link_to_a_directory(
    mngr: MngrProgram, tmp_path: Path, outside: Path, kind: str
) -> None:
    row = {"type": "user", "message": {"role": "user", "content": "hunter2"}, "timestamp": "2026-11-16T04:00:00.000Z"}
    (outside / "private.jsonl").write_text(json.dumps(row) + "\n")
    create_agent(mngr, tmp_path, kind)
    run_inside(
        mngr, outside, 'mkdir -p claude/projects; ln -s "$O" claude/projects/x'
        if kind == "claude" else 'rm -r pi/sessions; ln -s "$O" pi/sessions',
    )  # fmt: skip
    assert "hunter2" not in mngr("transcript", "foo").out
    mngr("destroy", "--force", "foo")
    assert "hunter2" not in mngr("transcript", "foo").out


def test_a_message_is_not_written_through_a_link_in_the_inbox(mngr: MngrProgram, tmp_path: Path, outside: Path) -> None:
    create_agent(mngr, tmp_path, "pi")
    program = "import os, sys; [os.symlink(sys.argv[1], f'inbox/.{n}') for n in range(1, 40000)]"
    run_inside(mngr, outside, f'echo "{{}}" >status; python3 -c "{program}" "$O/private.jsonl"')
    mngr("message", "foo", "-m", "a mark", "--timeout", "1s", code=None)
    assert_untouched(outside)


def test_carried_files_are_not_written_through_a_link_of_the_branch(mngr: MngrProgram, outside: Path) -> None:
    run_git(mngr.repo, "checkout", "-q", "-b", "hostile")
    (mngr.repo / "conf").symlink_to(outside)
    (mngr.repo / ".gitignore").write_text("local.env\n")
    run_git(mngr.repo, "add", ".")
    run_git(mngr.repo, "commit", "-qm", "Link")
    run_git(mngr.repo, "rm", "-q", "conf")
    run_git(mngr.repo, "commit", "-qm", "Unlink")
    (mngr.repo / "conf").mkdir()
    (mngr.repo / "conf" / "local.env").write_text("A=1\n")
    mngr("config", "set", "project.carry", '["conf/local.env"]')
    mngr("create", "foo", "--sandbox", "--base", "HEAD~1", "--", "sleep", "1000", code=None)
    assert_untouched(outside)
