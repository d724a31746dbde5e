"""The wrapper codex.sh and the hook script, tested without Codex but with the exact rows that it writes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mngr import kinds
from mngr.host import scripts
from mngr.kinds.codex import kind as codex
from mngr.kinds.codex.transcript import find_failed_turn
from tests.conftest import wait_for

STAMP = "2026-11-16T04:39:37.146Z"


class Place:
    """An agent's directory with the scripts in it."""

    def __init__(self, parent: Path) -> None:
        self.dir = parent / "a-0123456789ab"
        self.home = self.dir / "codex"
        for name in (
            "codex/own",
            "codex/sessions/2026/11/16",
            "codex/thread-writer-locks",
            "program-status",
            "work",
        ):
            (self.dir / name).mkdir(parents=True)
        for name, module in (("hook.sh", kinds), ("codex_hook.sh", codex), ("codex.sh", codex)):
            (self.dir / name).write_text(scripts.read_program_beside(str(module.__file__), name))
        variables = {"MNGR_AGENT_DIR": self.dir, "MNGR_WORK_DIR": self.dir / "work", "CODEX_HOME": self.home}
        self.env = {**os.environ, **{name: str(path) for name, path in variables.items()}}

    def record(self, name: str, *rows: dict[str, Any]) -> Path:
        path = self.home / "sessions/2026/11/16" / f"rollout-{name}.jsonl"
        with path.open("a") as file:
            file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        return path

    def hook(self, *arguments: str, **fields: str) -> None:
        text = json.dumps(fields, separators=(",", ":"))
        argv = ["sh", str(self.dir / "codex_hook.sh"), *arguments]
        subprocess.run(argv, env=self.env, input=text, text=True, check=True)

    def status(self) -> str:
        status = json.loads((self.dir / "status").read_text())
        return f"{status['state']} {status['reason']}".strip()


@pytest.fixture
def agent_dir(tmp_path: Path) -> Place:
    return Place(tmp_path)


def build_end_row(**payload: Any) -> dict[str, Any]:
    return {"timestamp": STAMP, "ordinal": 1, "type": "event_msg", "payload": payload}


def test_a_message_links_its_conversation_as_the_agents_own(agent_dir: Place) -> None:
    path = agent_dir.record("one", {"type": "session_meta"})
    agent_dir.hook("message", "RUNNING", transcript_path=str(path), prompt='"transcript_path":"/etc/passwd"')
    assert agent_dir.status() == "RUNNING"
    assert (agent_dir.home / "last").samefile(path) and (agent_dir.home / "own" / path.name).samefile(path)


def test_a_tool_of_a_sub_agent_does_not_change_the_state(agent_dir: Place) -> None:
    agent_dir.hook("turn_end", "WAITING", "end_of_turn")
    agent_dir.hook("tool_start", "RUNNING", agent_id="x", agent_type="default")
    assert agent_dir.status() == "WAITING end_of_turn"
    agent_dir.hook("tool_start", "RUNNING", tool_name='"agent_id":"x"')
    assert agent_dir.status() == "RUNNING"
    assert len((agent_dir.dir / "events.jsonl").read_text().splitlines()) == 3


def test_the_usage_of_a_sub_agent_is_stored_once(agent_dir: Place) -> None:
    usage_rows = [{"type": "token_usage_record", "payload": {"n": n}} for n in range(3)]
    path = agent_dir.record("sub", {"type": "session_meta"}, *usage_rows[:2])
    agent_dir.hook("helper", "-", agent_transcript_path=str(path))
    agent_dir.record("sub", {"type": "response_item"}, usage_rows[2])
    agent_dir.hook("helper", "-", agent_transcript_path=str(path))
    stored = (agent_dir.home / "own/helper-rollout-sub.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in stored] == usage_rows


@contextmanager
def run_codex_sh(agent_dir: Place, command: str) -> Iterator[None]:
    """Run codex.sh with a shell command in the place of Codex, and kill its process group at the end."""
    argv = ["sh", str(agent_dir.dir / "codex.sh"), "sh", "-c", command]
    with subprocess.Popen(argv, env=agent_dir.env, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, 9)


@pytest.fixture
def running(agent_dir: Place) -> Iterator[Place]:
    """Yield an agent's directory whose program has opened a conversation and waits for the end of its input."""
    with run_codex_sh(agent_dir, ': >"$CODEX_HOME/thread-writer-locks/0a.lock"; exec cat'):
        yield agent_dir


def test_it_reports_that_codex_is_ready_and_that_turns_failed(running: Place) -> None:
    wait_for((running.dir / "status").exists)
    assert running.status() == "WAITING end_of_turn"
    path = running.record("one", {"type": "session_meta"})
    running.hook("message", "RUNNING", transcript_path=str(path))
    status_file = running.dir / "program-status/1.json"

    def read_failure() -> tuple[str | None, str] | None:
        end = find_failed_turn(json.loads(status_file.read_text())) if status_file.exists() else None
        return None if end is None else (end.reason, end.message)

    error = {"message": 'it says "error":{ and ' + "x" * 9000, "codex_error_info": "rate_limit_exceeded"}
    running.record("one", build_end_row(type="task_complete", last_agent_message='"error":{'))
    running.record("one", build_end_row(type="task_complete", last_agent_message=None, error=error, started_at=5))
    wait_for(lambda: read_failure() == ("rate_limit", "rate_limit_exceeded"))
    running.record("one", build_end_row(type="turn_aborted", turn_id="t", reason="interrupted"))
    wait_for(lambda: read_failure() == (None, "interrupted"))
    events = running.dir / "events.jsonl"
    wait_for(lambda: events.read_text().count("interrupted") == 1)
    types = [json.loads(line)["type"] for line in events.read_text().splitlines()]
    assert types == ["ready", "message", "turn_failed", "turn_failed"]


def test_after_a_move_indexes_are_deleted_and_conversations_are_linked(agent_dir: Place) -> None:
    (agent_dir.home / "place").write_text("/elsewhere\n")
    (agent_dir.home / "state_5.sqlite").touch()
    path = agent_dir.record("one", {"type": "session_meta", "payload": {"source": "cli"}})
    agent_dir.record("sub", {"type": "session_meta", "payload": {"source": {"subagent": {}}}})
    begin_marker = agent_dir.dir / "begun"
    for _ in range(2):
        with run_codex_sh(agent_dir, f"touch {begin_marker}; exec cat"):
            wait_for(begin_marker.exists)
        assert [file.name for file in (agent_dir.home / "own").iterdir()] == [path.name]
        assert (agent_dir.home / "own" / path.name).samefile(path)
        assert (agent_dir.home / "state_5.sqlite").exists() == (agent_dir.dir / "again").exists()
        begin_marker.unlink()
        (agent_dir.home / "state_5.sqlite").touch()
        (agent_dir.dir / "again").touch()
