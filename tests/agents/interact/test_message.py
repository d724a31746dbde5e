"""Tests `mngr message` as a user runs it: what arrives, what proves it, and what mngr rejects."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BIN_DIR, IS_FULL_SCALE, MngrProgram, wait_for

SCALE = 1.0 if IS_FULL_SCALE else 0.01  # 1 is 10,000 messages
SEED = int(os.environ.get("MNGR_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)


def create_player(mngr: MngrProgram, name: str = "foo", scenario: Any = ()) -> None:
    mngr("create", name, "player", "--", json.dumps(scenario if isinstance(scenario, dict) else list(scenario)))


def list_user_messages(mngr: MngrProgram, name: str = "foo") -> list[str]:
    """Return the messages that an agent received, by its own transcript."""
    path = mngr.get_agent_dir(name) / "transcript.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [row["text"] for row in rows if row["role"] == "user"]


def send_message(mngr: MngrProgram, *words: str, **options: Any) -> dict[str, Any]:
    """Send a message to one agent and return its result."""
    (row,) = mngr.run_json("message", *words, **options)["results"]
    return dict(row)


def test_a_message_is_proven_by_the_transcript(mngr: MngrProgram) -> None:
    create_player(mngr)
    sent = send_message(mngr, "foo", "-m", "hello")
    assert (sent["name"], sent["ok"], sent["error"], sent["delivered"], sent["proof"]) == (
        "foo", True, None, True, "transcript",
    )  # fmt: skip
    assert list_user_messages(mngr) == ["hello"]
    assert "delivered to foo (proof: transcript)" in mngr("msg", "foo", "-m", "again").out


TEXTS = {
    "multi-line": "first\n\n  third, indented\n\ttabbed\nlast",
    "fences": "see:\n```sh\nfor i in `seq 3`; do echo \"$i\" '$HOME' \\; done\n```\nand ~~~ and %s %% #{pane_id} ;",
    "unicode": "naïve 日本語 🙂👩‍👩‍👧 \u202ertl\u202c ﷽ \u2028 e\u0301",
    "one-char": "y",
    "option": "-n --help",
    "100 kB": "".join(f"{i:06d} the quick brown fox ✓\n" for i in range(3300)),
}


@pytest.mark.parametrize("what", list(TEXTS))
def test_text_arrives_unchanged(mngr: MngrProgram, tmp_path: Path, what: str) -> None:
    create_player(mngr)
    text = TEXTS[what]
    if what == "100 kB":
        assert len(text.encode()) > 100_000
    path = tmp_path / "text"
    path.write_text(text)
    assert send_message(mngr, "foo", "--message-file", str(path))["proof"] == "transcript"
    assert list_user_messages(mngr) == [text.removesuffix("\n")]


def test_a_slowly_starting_program_gets_the_whole_message(mngr: MngrProgram, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "python3").write_text(f'#!/bin/sh\nsleep 0.6\nexec {sys.executable} "$@"\n')
    (slow / "python3").chmod(0o755)
    mngr("create", "foo", "player", env={"PATH": f"{slow}:{mngr.env['PATH']}"})
    assert mngr.get_agent("foo")["state"] == "STARTING"
    mngr("message", "foo", "-m", "early\nbird")
    assert list_user_messages(mngr) == ["early\nbird"]


def test_a_killed_sender_never_delivers_half_a_message(mngr: MngrProgram, tmp_path: Path) -> None:
    slow, signal_file, text = tmp_path / "slow", tmp_path / "sign", tmp_path / "text"
    slow.mkdir()
    wait = f"until [ -e {signal_file} ]; do sleep 0.05; done"
    (slow / "python3").write_text(f'#!/bin/sh\n{wait}\nexec {sys.executable} "$@"\n')
    (slow / "python3").chmod(0o755)
    text.write_text(TEXTS["100 kB"])
    mngr("create", "foo", "player", env={"PATH": f"{slow}:{mngr.env['PATH']}"})
    argv = [str(BIN_DIR / "mngr"), "message", "foo", "--message-file", str(text)]
    with subprocess.Popen(argv, cwd=mngr.repo, env=mngr.env) as sender:
        wait_for((mngr.get_agent_dir("foo") / "send.lock").exists)
        sender.kill()
    signal_file.touch()
    wait_for(lambda: list_user_messages(mngr))
    assert list_user_messages(mngr) == [TEXTS["100 kB"].removesuffix("\n")]


def test_message_reads_standard_input_by_default(mngr: MngrProgram) -> None:
    create_player(mngr)
    mngr("message", "foo", stdin="from\na pipe\n")
    assert list_user_messages(mngr) == ["from\na pipe"]


@pytest.mark.parametrize("text", ["a\x1b[201~\rrm x", "a\rb", "bell\a", "", "  \n "])
def test_empty_text_and_control_characters_are_rejected_and_nothing_is_sent(
    mngr: MngrProgram, tmp_path: Path, text: str
) -> None:
    create_player(mngr)
    path = tmp_path / "text"
    path.write_bytes(text.encode())
    completed = mngr("message", "foo", "--message-file", str(path), code=1)
    assert (
        completed.err.startswith("Error: the message ") and "\nHint: " in completed.err and "\x1b" not in completed.err
    )
    mngr("message", "foo", "-m", "clean")
    assert list_user_messages(mngr) == ["clean"]


def test_a_plain_command_gets_the_text_without_proof_of_arrival(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "cat > got")
    assert send_message(mngr, "foo", "-m", "one\ntwo")["proof"] == "sent"
    wait_for(lambda: (mngr.get_work_dir("foo") / "got").read_text() == "one\ntwo\n")
    events = mngr.run_json("events", "foo", "--type", "message")["events"]
    assert [row["data"] for row in events] == [{"proof": "sent", "characters": 7}]


def test_message_to_a_stopped_agent_fails_with_a_hint_and_start_helps(mngr: MngrProgram) -> None:
    create_player(mngr, scenario=[{"reply": "a"}, "wait", {"reply": "b"}])
    mngr("message", "foo", "-m", "one", "--wait")
    mngr("stop", "foo")
    completed = mngr("message", "foo", "-m", "two", code=1)
    assert completed.err == (
        "Error: foo is not running (state: STOPPED)\n"
        "Hint: start it and send the message: mngr message foo -m two --start\n"
    )
    sent = send_message(mngr, "foo", "-m", "two", "--start", "--wait")
    assert (sent["delivered"], sent["state"], sent["state_reason"]) == (True, "WAITING", "end_of_turn")
    texts = [row["text"] for row in mngr.run_json("transcript", "foo")["transcript"]]
    assert texts == ["one", "a", "two", "b"]


def test_wait_returns_when_the_turn_has_ended_with_the_whole_transcript(mngr: MngrProgram) -> None:
    create_player(mngr, scenario=[{"sleep": 0.4}, {"reply": "late"}, {"ask": "more?"}, {"exit": 3}])
    started_at = time.monotonic()
    sent = send_message(mngr, "foo", "-m", "go", "--wait")
    assert time.monotonic() - started_at > 0.4
    assert (sent["state"], sent["state_reason"]) == ("WAITING", "question")
    assert [row["text"] for row in mngr.run_json("transcript", "foo")["transcript"]] == [
        "go",
        "late",
        "more?",
    ]
    assert send_message(mngr, "foo", "-m", "no", "--wait")["state"] == "FAILED"


def test_wait_times_out_and_reports_that_the_message_arrived(mngr: MngrProgram) -> None:
    create_player(mngr, scenario=[{"sleep": 1000}])
    sent = send_message(mngr, "foo", "-m", "go", "--wait", "--timeout", "1s", code=5)
    assert (sent["ok"], sent["delivered"], sent["state"]) == (False, True, "RUNNING")


def test_a_message_without_proof_counts_as_not_delivered(mngr: MngrProgram) -> None:
    create_player(mngr, scenario=["hang"])
    mngr("message", "foo", "-m", "hello")  # The same text, so that its proof exists already.
    sent = send_message(mngr, "foo", "-m", "hello", "--timeout", "1s", code=5)
    assert (sent["ok"], sent["delivered"], sent["proof"]) == (False, False, None)
    assert "may still" in sent["error"]


def test_enter_is_repeated_while_the_text_is_still_in_the_input(mngr: MngrProgram) -> None:
    create_player(mngr, scenario={"lose_enters": 2})
    mngr("message", "foo", "-m", "line\n" * 50)
    mngr("message", "foo", "-m", "second")
    assert list_user_messages(mngr) == ["line\n" * 50, "second"]


def test_a_message_that_ends_the_agent_counts_as_delivered(mngr: MngrProgram) -> None:
    create_player(mngr, scenario=[{"exit": 0}])
    assert send_message(mngr, "foo", "-m", "end")["delivered"]
    wait_for(lambda: mngr.get_agent("foo")["state"] == "DONE")


def test_message_to_several_agents_has_a_result_for_each(mngr: MngrProgram) -> None:
    create_player(mngr, "foo")
    create_player(mngr, "bar")
    completed = mngr("message", "foo", "nobody", "bar", "-m", "hello", "--format", "json", code=4)
    assert [(r["name"], r["delivered"], r["proof"]) for r in completed.parse_json()["results"]] == [
        ("foo", True, "transcript"),
        ("nobody", False, None),
        ("bar", True, "transcript"),
    ]
    assert list_user_messages(mngr, "foo") == list_user_messages(mngr, "bar") == ["hello"]


def test_message_rejects_conflicting_sources_of_text(mngr: MngrProgram) -> None:
    create_player(mngr)
    assert "cannot be combined" in mngr("message", "foo", "-m", "a", "--message-file", "b", code=2).err
    assert "cannot read none" in mngr("message", "foo", "--message-file", "none", code=1).err
    assert "standard input holds the names" in mngr("message", "-", stdin="foo\n", code=2).err
    mngr("message", "-", "-m", "by name from a pipe", stdin="foo\n")
    assert list_user_messages(mngr) == ["by name from a pipe"]


def test_a_slash_command_is_rejected_unless_raw(mngr: MngrProgram, tmp_path: Path) -> None:
    plug = tmp_path / "plug"
    (plug / "orders-1.dist-info").mkdir(parents=True)
    (plug / "orders-1.dist-info" / "entry_points.txt").write_text("[mngr]\norders = orders\n")
    (plug / "orders-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: orders\nVersion: 1\n")
    (plug / "orders.py").write_text(
        "import pluggy\nfrom mngr.kinds.player.kind import PlayerKind\n"
        "class Orders(PlayerKind):\n    name = 'orders'\n"
        "    def delivery(self, record, text):\n        return super().delivery(record, text).replace(command_prefixes='/!')\n"
        "@pluggy.HookimplMarker('mngr')\ndef mngr_kinds():\n    return [Orders()]\n"
    )
    env = {"PYTHONPATH": str(plug)}
    mngr("create", "foo", "orders", env=env)
    completed = mngr("message", "foo", "-m", "/exit", code=1, env=env)
    assert (
        "the program would run a message that starts with '/' as a command" in completed.err
        and "--raw" in completed.err
    )
    mngr("message", "foo", "-m", "/exit", "--raw", env=env)
    path = mngr.home / "agents"
    (transcript,) = path.glob("*/transcript.jsonl")
    assert [json.loads(line)["text"] for line in transcript.read_text().splitlines()][:1] == ["/exit"]


def test_without_flock_senders_take_turns_and_ignore_a_dead_owner(mngr: MngrProgram, tmp_path: Path) -> None:
    create_player(mngr)
    tools = tmp_path / "tools"
    tools.mkdir()
    programs = "sh tmux date cat readlink ln mkdir rm rmdir find sleep wc tail grep tr".split()
    for program in programs:
        path = shutil.which(program)
        assert path is not None
        (tools / program).symlink_to(path)
    env = {"PATH": str(tools)}
    dead = subprocess.Popen(["true"])
    dead.wait()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for owner in (f"{dead.pid}:{boot}", f"{os.getpid()}:another-boot"):
        (mngr.get_agent_dir("foo") / "send.owner").symlink_to(owner)
        assert send_message(mngr, "foo", "-m", "past the dead", env=env)["delivered"]
        assert not (mngr.get_agent_dir("foo") / "send.owner").is_symlink()
    (mngr.get_agent_dir("foo") / "send.owner").symlink_to(f"{os.getpid()}:{boot}")
    sent = send_message(mngr, "foo", "-m", "not past the living", "--timeout", "1s", env=env, code=5)
    assert "mngr was still sending other messages to foo" in sent["error"]
    assert list_user_messages(mngr) == ["past the dead"] * 2


@pytest.mark.hosts
def test_many_senders_deliver_each_message_once_and_in_order(mngr: MngrProgram) -> None:
    """Each player receives exactly what each sender sent to it."""
    players, processes = (20, 8) if IS_FULL_SCALE else (3, 4)
    count = max(processes, int(10_000 * SCALE)) // processes
    print(f"seed {SEED}, {count} messages from each of {processes} senders to {players} players")
    agents = [f"p{number}" for number in range(players)]
    for name in agents:
        create_player(mngr, name)
    program = (
        "import random, sys\nfrom mngr import Fleet\n"
        "sender, count, seed, players = sys.argv[1], *(int(word) for word in sys.argv[2:])\n"
        "dice, fleet = random.Random(seed), Fleet()\n"
        "for number in range(count):\n"
        "    name = f'p{dice.randrange(players)}'\n"
        "    text = f'{sender} {number}' + dice.choice(['', '\\nmore', ' ✓' * 300])\n"
        "    (done,) = fleet.message([name], text)\n"
        "    assert done.ok and done.extra['proof'] == 'transcript', done\n"
        "    print(name, number, flush=True)\n"
    )
    senders = [
        subprocess.Popen(
            [sys.executable, "-c", program, f"s{i}", str(count), str(SEED + i), str(players)],
            env=mngr.env, cwd=mngr.repo, stdout=subprocess.PIPE, text=True,
        )
        for i in range(processes)
    ]  # fmt: skip
    expected: dict[str, dict[str, list[str]]] = {name: {} for name in agents}
    for i, process in enumerate(senders):
        out, _ = process.communicate(timeout=60 + count)
        assert process.returncode == 0
        for line in out.splitlines():
            name, number = line.split()
            expected[name].setdefault(f"s{i}", []).append(number)
    for name in agents:
        received: dict[str, list[str]] = {}
        for text in list_user_messages(mngr, name):
            sender, number = text.split("\n")[0].split()[:2]
            received.setdefault(sender, []).append(number)
        assert received == expected[name]
        assert max(Counter(list_user_messages(mngr, name)).values(), default=1) == 1


def test_the_hint_for_a_stopped_agent_sends_the_same_message(mngr: MngrProgram) -> None:
    create_player(mngr)
    mngr("stop", "foo")
    text = "it's time; run `make test` & report"
    hint = mngr("message", "foo", "-m", text, "--wait", code=1).err.splitlines()[1]
    assert shlex.split(hint.partition(": mngr ")[2]) == ["message", "foo", "-m", text, "--start", "--wait"]


@pytest.mark.parametrize("text", ["first line\nsecond line", "word " * 200])
def test_the_hint_for_a_stopped_agent_does_not_repeat_a_long_message(mngr: MngrProgram, text: str) -> None:
    create_player(mngr)
    mngr("stop", "foo")
    stderr = mngr("message", "foo", "-m", text, code=1).err
    assert stderr.endswith("Hint: start it, then send the message again: mngr start foo\n")


def test_allow_and_deny_answer_a_permission_question(mngr: MngrProgram) -> None:
    create_player(mngr, scenario=[{"permission": "may I?"}, {"permission": "and now?"}, {"reply": "fine"}])
    stderr = mngr("message", "foo", "--allow", code=1).err
    assert "foo is not waiting for a permission" in stderr
    mngr("message", "foo", "-m", "go")
    mngr("wait", "foo")
    mngr("message", "foo", "--allow", "--wait")
    mngr("message", "foo", "--deny", "--wait")
    assert list_user_messages(mngr) == ["go", "yes", "no"]
    assert mngr.get_agent("foo")["state_reason"] == "end_of_turn"
    assert "cannot be combined" in mngr("message", "foo", "--allow", "-m", "x", code=2).err


def test_a_command_has_no_turns_to_wait_for(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "cat")
    err = mngr("message", "foo", "-m", "hello", "--wait", code=1).err
    assert "has no turns" in err and "mngr sent nothing" in err and "mngr wait foo" in err
    assert "hello" not in mngr("capture", "foo").out
