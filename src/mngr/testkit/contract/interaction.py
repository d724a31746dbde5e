"""Checks of messages, screens, transcripts and events, and of a person at a terminal."""

from __future__ import annotations

import json
import re

from mngr.testkit.contract.client import SLEEP_COMMAND, Client, ContractChecks
from mngr.testkit.contract.mngr_program import BIN_DIR, BackgroundProgram, wait_for
from mngr.testkit.contract.pty_terminal import PtyTerminal

ODD_MESSAGES = (
    "y",
    "-n --help",
    "first\n\n  third, indented\n\ttabbed\nlast",
    "see:\n```sh\nfor i in `seq 3`; do echo \"$i\" '$HOME' \\; done\n```\nand %s %% #{pane_id} ;",
    "naïve 日本語 🙂👩‍👩‍👧 e\u0301",
    "".join(f"{i:06d} the quick brown fox ✓\n" for i in range(1000)) + "end",
)
PRINT_SIZE_SCRIPT = "trap 'stty size' WINCH; echo hello from foo; while :; do sleep 0.05; done"


class MessageContract(ContractChecks):
    """Checks of message, capture, transcript, events and connect."""

    def test_plain_command_receives_text_and_its_exit_is_shown(self, client: Client) -> None:
        client.create("foo", "--", "cat > got")
        row = client.get_only_row("message", "foo", "-m", "one\ntwo é")
        assert (row["delivered"], row["proof"]) == (True, "sent")
        wait_for(lambda: client.run_script("foo", "cat got") == "one\ntwo é\n")
        client("stop", "foo")
        assert "foo is not running (state: STOPPED)" in client("message", "foo", "-m", "x", code=1).err
        client.create("end", "--", "read line; exit 3")
        client.create("on", *SLEEP_COMMAND)
        with BackgroundProgram(client, "wait", "end", "on", "--any", "--format", "json") as process:
            client("message", "end", "-m", "end")
            (row,) = process.wait_for_end().parse_json()["results"]
        assert (row["name"], row["state"]) == ("end", "FAILED")
        client("wait", "on", "--state", "DONE", "--timeout", "0.2s", code=5)

    def test_message_arrives_unchanged_and_confirmed(self, client: Client) -> None:
        client.create("foo", "player", "-m", "before")
        for text in ODD_MESSAGES:
            row = client.get_only_row("message", "foo", stdin=text)
            assert (row["delivered"], row["proof"]) == (True, "transcript")
        rows = client.run_json("transcript", "foo")["transcript"]
        assert [row["text"] for row in rows if row["role"] == "user"] == ["before", *ODD_MESSAGES]
        client("wait", "foo")
        explanation = client("explain", "foo").out
        assert "WAITING" in explanation and "end_of_turn" in explanation
        assert re.search(rf"\b{client.get_agent('foo')['id']}\b", json.dumps(client.run_json("explain", "foo")))
        client("stop", "foo")
        rows = client.run_json("events", "foo")["events"]
        assert all(list(row) == ["v", "at", "agent", "name", "type", "source", "data"] for row in rows)
        seconds = [row["at"][:19] for row in rows]  # Not every host's clock has fractions of a second.
        assert seconds == sorted(seconds)
        kinds = [row["type"] for row in rows]
        assert (kinds[0], kinds[-1], kinds.count("message")) == ("created", "stopped", 1 + len(ODD_MESSAGES))
        assert client.run_json("events")["events"] == rows

    def test_message_waits_for_the_turn_and_transcript_shows_it(self, client: Client) -> None:
        steps = [
            {"reply": "a"},
            {"write": {"path": "out.txt", "content": "w"}},
            {"ask": "more?"},
            {"exit": 3},
        ]
        client.create("foo", "player", "--", json.dumps(steps))
        row = client.get_only_row("message", "foo", "-m", "go", "--wait")
        assert (row["state"], row["state_reason"]) == ("WAITING", "question")
        assert client.run_script("foo", "cat out.txt") == "w"
        types = ("--type", "message", "--type", "exited", "--format", "{type}")
        row_format = ("--format", "{role} {text}")
        with (
            BackgroundProgram(client, "events", "foo", "--follow", *types) as events,
            BackgroundProgram(client, "transcript", "foo", "--follow", *row_format) as transcript,
        ):
            assert events.read_line() == "message"
            assert [transcript.read_line() for _ in range(4)] == [
                "user go",
                "assistant a",
                "tool ",
                "assistant more?",
            ]
            assert client.get_only_row("message", "foo", "-m", "no", "--wait")["state"] == "FAILED"
            assert [events.read_line(), events.read_line()] == ["message", "exited"]
            assert transcript.read_line() == "user no"
            assert client.get_agent("foo")["exit_code"] == 3
            client("destroy", "foo")
            assert (events.wait_for_end().code, transcript.wait_for_end().code) == (0, 0)

    def test_capture_shows_screen_and_scrollback(self, client: Client) -> None:
        client.create("foo", "--", "seq 1 120; printf '\\033[31mred ✓\\033[0m\\n'; exec sleep 1000")
        wait_for(lambda: "red" in client("capture", "foo").out)
        screen = client("capture", "foo").out
        assert screen.endswith("120\nred ✓\n") and "\n1\n" not in screen
        assert client("capture", "foo", "--history", "all").out.split() == [
            *map(str, range(1, 121)),
            "red",
            "✓",
        ]
        assert "\x1b[31mred" in client("capture", "foo", "--ansi").out
        client("stop", "foo")
        last = client.run_json("capture", "foo")
        assert (last["is_live"], last["text"]) == (False, screen)

    def test_connect_resizes_the_terminal_and_passes_keys_on(self, client: Client) -> None:
        client.create("foo", "--", "sh", "-c", PRINT_SIZE_SCRIPT)
        wait_for(lambda: "hello" in client("capture", "foo").out)
        argv = [str(BIN_DIR / "mngr"), "connect", "foo"]
        with PtyTerminal(argv, client.repo, client.env, rows=30, columns=100) as terminal:
            terminal.wait_for_text("hello from foo")
            wait_for(lambda: "29 100" in client("capture", "foo").out)
            terminal.resize(20, 80)
            wait_for(lambda: "19 80" in client("capture", "foo").out)
            terminal.wait_for_text("detach:")
            terminal.type("\x02", "d")
            assert terminal.wait_for_exit() == 0
        assert client.get_agent("foo")["state"] == "RUNNING"
        client.create("bar", "--", "cat")
        with PtyTerminal([str(BIN_DIR / "mngr"), "connect", "bar"], client.repo, client.env) as terminal:
            terminal.wait_for_text("detach:")
            terminal.type("typed é words\r")
            wait_for(lambda: client("capture", "bar").out.count("typed é words") == 2)
        client("stop", "bar")
        with PtyTerminal([str(BIN_DIR / "mngr"), "connect", "bar", "--start"], client.repo, client.env) as terminal:
            terminal.wait_for_text("detach:")
            terminal.type("\x02", "d")
            assert terminal.wait_for_exit() == 0
