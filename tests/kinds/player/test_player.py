"""The player: its scenarios, its decoding of keys, and how it plays in a terminal that the test controls."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base.errors import MngrError, UsageError
from mngr.kinds.delivery_plan import Delivery, check_text, reject_slash_command
from mngr.kinds.player import player, sabotage, scenario, work_and_fault_steps
from mngr.kinds.player.kind import KIND
from mngr.kinds.player.scenario import parse_scenario
from mngr.kinds.protocol import KindOptions
from tests.conftest import run_git, wait_for
from tests.support.paths import ROOT

# --- scenarios


def test_a_bare_list_and_an_object_are_the_same_scenario() -> None:
    steps = [{"reply": "hi"}, "wait", {"exit": 3}]
    assert parse_scenario(json.dumps(steps)) == parse_scenario(json.dumps({"steps": steps}))
    assert parse_scenario(json.dumps(steps))["steps"] == [["reply", "hi"], ["wait", None], ["exit", 3]]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("nonsense", "Expecting value"),
        ("3", "a list of steps"),
        ('{"steps": 3}', "a list of steps"),
        ('{"stpes": []}', "'stpes'"),
        ('{"start": "later"}', "'later'"),
        ('{"lose_enters": true}', "lose_enters"),
        ("[[]]", "step 1"),
        ('["wait", "sleep"]', "step 2"),
        ('[{"reply": "a", "sleep": 1}]', "one key"),
        ('[{"say": "a"}]', "unknown step 'say'"),
        ('[{"reply": 3}]', "reply must be a string"),
        ('[{"sleep": -1}]', "not negative"),
        ('[{"sleep": "1"}]', "not negative"),
        ('[{"exit": 256}]', "up to 255"),
        ('[{"exit": 1.5}]', "up to 255"),
        ('[{"write": {"path": "a"}}]', "with path and append"),
        ('[{"write": {"path": "a", "content": 3}}]', "with path and append"),
        ('[{"run": ["ls"]}]', "run must be a string"),
        ('[{"edit": {"path": "a", "old": "b"}}]', "path, old and new"),
        ('[{"result": "bad"}]', "or one of complete, partial"),
        ('[{"spend": {"tokens": 3}}]', "input_tokens"),
        ('[{"weaken": ["skip"]}]', "one of asserts"),
        ('[{"crash": "STOP"}]', "one of KILL"),
        ('[{"flood": 1001}]', "up to 1000"),
        ('[{"park": "fee"}]', "rate_limit, quota or login"),
        ('[{"park": {"seconds": 3}}]', "rate_limit, quota or login"),
        ('[{"retry": -1}]', "not negative"),
        ('[{"conflict": {"path": "a", "line": 0}}]', "a line number"),
        ('[{"hostile": "all"}]', "one of links"),
        ('{"cases": {}}', "cases must be a list"),
        ('{"cases": [{"steps": []}]}', "case 1 must be"),
        ('{"cases": [{"task": "*", "steps": [{"exit": 0}, "lied"]}]}', "case 1, step 2"),
        ("[" * 100_000, "too deep"),
    ],
)
def test_a_wrong_scenario_says_what_is_wrong(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(part)):
        parse_scenario(text)


def test_every_step_is_implemented_and_documented() -> None:
    assert set(scenario.VERBS) == {*scenario.BASIC_VERBS, *work_and_fault_steps.STEP_FUNCTIONS}
    assert (*sabotage.WEAKENINGS, "conftest") == scenario.WEAKENINGS and tuple(
        sabotage.HOSTILE_PLANTERS
    ) == scenario.HOSTILE_KINDS
    page = (ROOT / "docs" / "concepts" / "player.md").read_text()
    words = (
        *scenario.RESULT_FORMS,
        *scenario.WEAKENINGS,
        *scenario.CRASH_KINDS,
        *scenario.HOSTILE_KINDS,
        *scenario.PARK_REASONS,
    )
    assert [verb for verb in scenario.VERBS if f'| `{{"{verb}"' not in page and f'| `"{verb}"' not in page] == []
    assert [word for word in words if f"`{word}`" not in page and f'"{word}"' not in page] == []


def test_a_scenario_is_a_file_or_json_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("[]")
    for args in ([], ["[]"], [' {"steps": []}'], [str(tmp_path / "s.json")]):
        KIND.check_arguments(args, KindOptions())
    for args in (["[]", "[]"], [str(tmp_path / "none.json")], [str(tmp_path)], ["[3]"]):
        with pytest.raises(UsageError):
            KIND.check_arguments(args, KindOptions())


# --- messages


def test_text_that_a_terminal_would_obey_is_refused() -> None:
    for bad in ("a\x1b[201~\rrm -rf x", "a\rb", "\x00", "a\x7f", "a\x9b31m", "\udc80", " \n "):
        with pytest.raises(MngrError):
            check_text(bad)
    assert check_text("tab\tand\nline ✓ 日本") == "tab\tand\nline ✓ 日本"


def test_a_command_to_the_program_is_refused_if_the_kind_has_such_prefixes() -> None:
    for text in ("/exit", "  !ls"):
        with pytest.raises(MngrError, match="as a command"):
            reject_slash_command(Delivery(text=text, command_prefixes="/!"))
        reject_slash_command(Delivery(text=text))
    reject_slash_command(Delivery(text="a /exit", command_prefixes="/!"))


# --- keys


def encode_paste(text: str) -> bytes:
    return b"\x1b[200~" + text.replace("\n", "\r").encode() + b"\x1b[201~\r"


@given(
    texts=st.lists(
        st.text(st.characters(exclude_categories=("Cc", "Cs"), include_characters="\n\t"), min_size=1),
        max_size=4,
    ),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_pastes_arrive_complete_however_the_terminal_splits_them(texts: list[str], cuts: list[int]) -> None:
    data = b"".join(encode_paste(text) for text in texts)
    keys = player.KeyDecoder()
    received: list[str] = []
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in itertools.pairwise(edges):
        received += keys.feed(data[start:end])
    assert received == [text for text in texts if text.strip()]


def test_keys_are_decoded_into_lines_and_the_terminals_answer() -> None:
    keys = player.KeyDecoder()
    assert keys.feed("höllo\x7f\x7f\x7fl\x1b[A\x1bOB\x1bxo\t!\r\r \rnext\n".encode()) == ["hölo\t!", "next"]
    assert not keys.answered
    assert keys.feed(b"\x1b[0") == [] and not keys.answered
    assert keys.feed(b"nab\xc3") == [] and keys.answered
    assert keys.feed(b"\xa4\x7f\r") == ["ab"]
    with pytest.raises(player.PlayerExit):
        keys.feed(b"\x04")


def test_the_first_enters_can_be_ignored() -> None:
    keys = player.KeyDecoder(lose_enters=2)
    assert keys.feed(b"a\r\r") == []
    assert keys.feed(b"\r") == ["a"]


# --- playing


class Seat:
    """A player in a terminal that the test controls."""

    def __init__(self, root: Path, steps: Any, **scenario: Any) -> None:
        self.root, self.work = root, root / "work"
        self.work.mkdir(exist_ok=True)
        shutil.copy(player.__file__, root / "player.py")
        text = json.dumps({"steps": steps, **scenario})
        (root / "scenario.json").write_text(json.dumps(parse_scenario(text)))
        self.master, self.slave = pty.openpty()
        self.start()

    def start(self, *, answers: bool = True) -> None:
        self.before = termios.tcgetattr(self.slave)
        env = {
            **os.environ,
            "MNGR_AGENT_DIR": str(self.root),
            "MNGR_WORK_DIR": str(self.work),
            "MNGR_AGENT_ID": "a-1",
        }
        self.process = subprocess.Popen(
            [sys.executable, str(self.root / "player.py")],
            stdin=self.slave, stdout=self.slave, stderr=self.slave, env=env, start_new_session=True,
        )  # fmt: skip
        assert b"\x1b[?2004h" in self.until(b"\x1b[5n")
        if answers:
            os.write(self.master, b"\x1b[0n")

    def until(self, marker: bytes) -> bytes:
        output = b""
        deadline = time.monotonic() + 20
        while marker not in output:
            assert time.monotonic() < deadline, output
            if select.select([self.master], [], [], 0.1)[0]:
                output += os.read(self.master, 65536)
        return output

    def send(self, text: str) -> None:
        os.write(self.master, encode_paste(text))

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=10)

    def shorten(self, step: int) -> None:
        """Set a sleep to zero, for the next start."""
        path = self.root / "scenario.json"
        scenario = json.loads(path.read_text())
        scenario["steps"][step][1] = 0
        path.write_text(json.dumps(scenario))

    def rows(self, name: str) -> list[dict[str, Any]]:
        path = self.root / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def said(self) -> list[str]:
        return [row["text"] for row in self.rows("transcript") if row["role"] == "assistant"]

    def events(self) -> list[str]:
        return [row["type"] for row in self.rows("events")]

    def status(self) -> tuple[str, str | None]:
        row = json.loads((self.root / "status").read_text())
        return row["state"], row["reason"]

    def wait_until(self, state: str, reason: str | None = None) -> None:
        wait_for(lambda: (self.root / "status").exists() and self.status() == (state, reason))


@pytest.fixture
def make_seat(tmp_path: Path) -> Iterator[Any]:
    created: list[Seat] = []

    def make(steps: Any, **scenario: Any) -> Seat:
        created.append(Seat(tmp_path, steps, **scenario))
        return created[-1]

    yield make
    for seat in created:
        seat.process.kill()
        seat.process.wait()
        os.close(seat.master)
        os.close(seat.slave)


def test_without_steps_it_waits_and_answers_every_message(make_seat: Any) -> None:
    seat = make_seat([])
    seat.wait_until("WAITING", "end_of_turn")
    assert seat.rows("transcript") == []
    seat.send("one\ntwo  \n")
    wait_for(lambda: seat.said() == ["ok: one"])
    seat.wait_until("WAITING", "end_of_turn")
    assert [(r["role"], r["text"]) for r in seat.rows("transcript")] == [
        ("user", "one\ntwo  \n"),
        ("assistant", "ok: one"),
    ]
    message = next(row for row in seat.rows("events") if row["type"] == "message")
    assert (message["agent"], message["source"]) == ("a-1", "player")
    assert message["data"]["sha256"] == sha256(b"one\ntwo").hexdigest()
    assert seat.events() == ["ready", "waiting", "message", "turn_start", "turn_end", "waiting"]


def test_a_turn_ends_at_wait_and_at_questions(make_seat: Any) -> None:
    seat = make_seat([{"reply": "a"}, "wait", {"ask": "b?"}, {"permission": "c?"}, {"reply": "d"}])
    seat.wait_until("WAITING", "end_of_turn")
    for answer, reason, replies in (
        ("1", "end_of_turn", ["a"]),
        ("2", "question", ["a", "b?"]),
        ("3", "permission", ["a", "b?", "c?"]),
        ("4", "end_of_turn", ["a", "b?", "c?", "d"]),
        ("5", "end_of_turn", ["a", "b?", "c?", "d", "ok: 5"]),
    ):
        seat.send(answer)
        wait_for(lambda: seat.said() == replies)  # noqa: B023
        seat.wait_until("WAITING", reason)


def test_it_writes_appends_and_commits(make_seat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "deep")
    steps = [
        {"write": {"path": "$WHERE/x.txt", "content": "ä\n"}},
        {"write": {"path": "deep/x.txt", "append": "b\n"}},
        {"commit": "add x"},
        {"write": {"path": "deep/x.txt/y", "content": ""}},
        {"commit": "nothing"},
    ]
    seat = make_seat(steps)
    run_git(seat.work, "init", "-q")
    run_git(seat.work, "config", "user.name", "Test")
    run_git(seat.work, "config", "user.email", "test@example.invalid")
    seat.wait_until("WAITING", "end_of_turn")
    seat.send("go")
    wait_for(lambda: (events := seat.events())[-1] == "waiting" and "message" in events)
    tools = [row for row in seat.rows("transcript") if row["role"] == "tool"]
    assert [row["tool"] for row in tools] == ["write", "write", "commit", "write", "commit"]
    assert (seat.work / "deep" / "x.txt").read_text() == "ä\nb\n"
    assert run_git(seat.work, "log", "--format=%s %H") == f"add x {tools[2]['output']}"
    assert all(row["output"].startswith("failed:") for row in tools[3:])


def test_it_can_start_without_a_message_and_exit_with_a_code(make_seat: Any) -> None:
    seat = make_seat([{"reply": "a"}, {"exit": 7}, {"reply": "b"}], start="now")
    assert seat.process.wait(timeout=10) == 7
    assert seat.said() == ["a"]
    assert termios.tcgetattr(seat.slave) == seat.before
    seat.start()
    seat.wait_until("WAITING", "end_of_turn")
    seat.send("go on")
    wait_for(lambda: seat.said() == ["a", "b"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_and_the_terminal_is_restored(make_seat: Any, number: int) -> None:
    seat = make_seat([{"sleep": 1000}])
    seat.wait_until("WAITING", "end_of_turn")
    seat.send("go")
    seat.until(b"sleeping")
    assert seat.end(number) == 128 + number
    assert b"\x1b[?2004l" in seat.until(b"\x1b[?2004l")
    assert termios.tcgetattr(seat.slave) == seat.before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_restart_it_continues_and_repeats_no_step(make_seat: Any, number: int) -> None:
    log = {"write": {"path": "log", "append": "x"}}
    seat = make_seat([{"reply": "a"}, log, {"sleep": 1000}, {"reply": "b"}])
    seat.wait_until("WAITING", "end_of_turn")
    seat.send("go")
    seat.until(b"sleeping")
    seat.end(number)
    assert seat.status() == ("RUNNING", None)
    seat.shorten(2)
    seat.start()
    wait_for(lambda: seat.said() == ["a", "b"])
    assert (seat.work / "log").read_text() == "x"


def test_a_message_during_a_turn_is_answered_even_after_a_restart(make_seat: Any) -> None:
    seat = make_seat([{"sleep": 1000}, {"reply": "a"}])
    seat.wait_until("WAITING", "end_of_turn")
    seat.send("go")
    seat.until(b"sleeping")
    seat.send("came while it was busy")
    wait_for(lambda: seat.events().count("message") == 2)
    seat.end()
    seat.shorten(0)
    seat.start()
    wait_for(lambda: seat.said() == ["a", "ok: came while it was busy"])


def test_a_question_is_still_open_after_a_restart(make_seat: Any) -> None:
    seat = make_seat([{"ask": "well?"}, {"reply": "thanks"}])
    seat.wait_until("WAITING", "end_of_turn")
    seat.send("go")
    seat.wait_until("WAITING", "question")
    seat.end()
    (seat.root / "status").unlink()
    seat.start()
    seat.wait_until("WAITING", "question")
    seat.send("yes")
    wait_for(lambda: seat.said() == ["well?", "thanks"])


def test_it_is_ready_only_after_the_terminal_has_enabled_bracketed_paste(make_seat: Any) -> None:
    seat = make_seat([])
    seat.wait_until("WAITING", "end_of_turn")
    seat.end()
    seat.until(b"\x1b[?2004l")
    (seat.root / "status").unlink()
    seat.start(answers=False)
    assert not select.select([seat.master], [], [], 0.3)[0] and not (seat.root / "status").exists()
    os.write(seat.master, b"\x1b[0n")
    seat.wait_until("WAITING", "end_of_turn")


def test_waiting_ends_before_the_delivery_event_and_returns_last(tmp_path: Path) -> None:
    order: list[str] = []

    class Log(player.PlayerFiles):
        def _append_row(self, name: str, row: dict[str, Any]) -> None:
            order.append(row["type"] if name == "events.jsonl" else row["role"])
            super()._append_row(name, row)

        def write_status(self, state: str, reason: str | None, until: str | None = None) -> None:
            order.append(state)
            super().write_status(state, reason, until)

    played = player.Player(Log(str(tmp_path)), parse_scenario("[]"), str(tmp_path))
    played._receive_message("hello")
    assert order == ["user", "RUNNING", "message"]
    played._save_progress(turn=True, current=played.at["pending"].pop(0))
    played._play_turn()
    assert order[3:] == ["RUNNING", "turn_start", "assistant", "turn_end", "waiting", "WAITING"]
    os.close(played.wake)
    os.close(played._wake_in)


def test_a_hung_player_reads_nothing_but_obeys_signals(make_seat: Any) -> None:
    seat = make_seat(["hang"], start="now")
    seat.until(b"hanging")
    seat.send("hello")
    assert seat.end() == 128 + signal.SIGTERM
    assert seat.rows("transcript") == []


def test_a_long_message_with_unicode_arrives_unchanged(make_seat: Any) -> None:
    seat = make_seat([])
    seat.wait_until("WAITING", "end_of_turn")
    text = "```py\nprint('✓ 日本 🙂')\n\tend\n```\n" * 3000
    data = memoryview(encode_paste(text))
    os.set_blocking(seat.master, False)
    while data:
        if select.select([], [seat.master], [], 5)[1]:
            data = data[os.write(seat.master, data[:4096]) :]
    wait_for(lambda: seat.said() == ["ok: ```py"])
    assert seat.rows("transcript")[0]["text"] == text
