"""What runs beside Codex, and what its hooks run; without Codex, to the letter of what it writes."""

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
    """An agent's directory with the programs in it."""

    def __init__(self, top: Path) -> None:
        self.dir = top / "a-0123456789ab"
        self.home = self.dir / "codex"
        for name in (
            "codex/own",
            "codex/sessions/2026/11/16",
            "codex/thread-writer-locks",
            "witness",
            "work",
        ):
            (self.dir / name).mkdir(parents=True)
        for name, module in (("hook.sh", kinds), ("codex_hook.sh", codex), ("codex.sh", codex)):
            (self.dir / name).write_text(scripts.read_program_beside(str(module.__file__), name))
        own = {"MNGR_AGENT_DIR": self.dir, "MNGR_WORK_DIR": self.dir / "work", "CODEX_HOME": self.home}
        self.env = {**os.environ, **{name: str(path) for name, path in own.items()}}

    def record(self, name: str, *rows: dict[str, Any]) -> Path:
        path = self.home / "sessions/2026/11/16" / f"rollout-{name}.jsonl"
        with path.open("a") as file:
            file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        return path

    def hook(self, *words: str, **said: str) -> None:
        text = json.dumps(said, separators=(",", ":"))
        argv = ["sh", str(self.dir / "codex_hook.sh"), *words]
        subprocess.run(argv, env=self.env, input=text, text=True, check=True)

    def status(self) -> str:
        found = json.loads((self.dir / "status").read_text())
        return f"{found['state']} {found['reason']}".strip()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def ended(**payload: Any) -> dict[str, Any]:
    return {"timestamp": STAMP, "ordinal": 1, "type": "event_msg", "payload": payload}


def test_the_conversation_of_a_message_is_the_agents_own(place: Place) -> None:
    path = place.record("one", {"type": "session_meta"})
    place.hook("message", "RUNNING", transcript_path=str(path), prompt='"transcript_path":"/etc/passwd"')
    assert place.status() == "RUNNING"
    assert (place.home / "last").samefile(path) and (place.home / "own" / path.name).samefile(path)


def test_a_tool_of_a_sub_agent_does_not_change_the_state(place: Place) -> None:
    place.hook("turn_end", "WAITING", "end_of_turn")
    place.hook("tool_start", "RUNNING", agent_id="x", agent_type="default")
    assert place.status() == "WAITING end_of_turn"
    place.hook("tool_start", "RUNNING", tool_name='"agent_id":"x"')
    assert place.status() == "RUNNING"
    assert len((place.dir / "events.jsonl").read_text().splitlines()) == 3


def test_what_a_sub_agent_uses_is_kept_once(place: Place) -> None:
    spent = [{"type": "token_usage_record", "payload": {"n": n}} for n in range(3)]
    path = place.record("sub", {"type": "session_meta"}, *spent[:2])
    place.hook("helper", "-", agent_transcript_path=str(path))
    place.record("sub", {"type": "response_item"}, spent[2])
    place.hook("helper", "-", agent_transcript_path=str(path))
    kept = (place.home / "own/helper-rollout-sub.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == spent


@contextmanager
def beside(place: Place, begin: str) -> Iterator[None]:
    """With a shell line in Codex's place; what runs beside it goes with its terminal, here with its group."""
    argv = ["sh", str(place.dir / "codex.sh"), "sh", "-c", begin]
    with subprocess.Popen(argv, env=place.env, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, 9)


@pytest.fixture
def running(place: Place) -> Iterator[Place]:
    """With a program that has taken up a conversation and waits for the end of its input."""
    with beside(place, ': >"$CODEX_HOME/thread-writer-locks/0a.lock"; exec cat'):
        yield place


def test_it_is_ready_when_it_has_a_conversation_and_its_bad_ends_are_told(running: Place) -> None:
    wait_for((running.dir / "status").exists)
    assert running.status() == "WAITING end_of_turn"
    path = running.record("one", {"type": "session_meta"})
    running.hook("message", "RUNNING", transcript_path=str(path))
    witness = running.dir / "witness/1.json"

    def why() -> tuple[str | None, str] | None:
        end = find_failed_turn(json.loads(witness.read_text())) if witness.exists() else None
        return None if end is None else (end.reason, end.message)

    said = {"message": 'it says "error":{ and ' + "x" * 9000, "codex_error_info": "rate_limit_exceeded"}
    running.record("one", ended(type="task_complete", last_agent_message='"error":{'))
    running.record("one", ended(type="task_complete", last_agent_message=None, error=said, started_at=5))
    wait_for(lambda: why() == ("rate_limit", "rate_limit_exceeded"))
    running.record("one", ended(type="turn_aborted", turn_id="t", reason="interrupted"))
    wait_for(lambda: why() == (None, "interrupted"))
    events = running.dir / "events.jsonl"
    wait_for(lambda: events.read_text().count("interrupted") == 1)
    told = [json.loads(line)["type"] for line in events.read_text().splitlines()]
    assert told == ["ready", "message", "turn_failed", "turn_failed"]


def test_indexes_of_another_place_are_made_anew_and_what_was_brought_along_is_its_own(place: Place) -> None:
    (place.home / "place").write_text("/elsewhere\n")
    (place.home / "state_5.sqlite").touch()
    path = place.record("one", {"type": "session_meta", "payload": {"source": "cli"}})
    place.record("sub", {"type": "session_meta", "payload": {"source": {"subagent": {}}}})
    begun = place.dir / "begun"
    for _ in range(2):
        with beside(place, f"touch {begun}; exec cat"):
            wait_for(begun.exists)
        assert [file.name for file in (place.home / "own").iterdir()] == [path.name]
        assert (place.home / "own" / path.name).samefile(path)
        assert (place.home / "state_5.sqlite").exists() == (place.dir / "again").exists()
        begun.unlink()
        (place.home / "state_5.sqlite").touch()
        (place.dir / "again").touch()
