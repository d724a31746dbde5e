"""The program of kind `player`: it reads messages from its terminal and plays the steps of a scenario.

mngr.kinds.player.scenario checks scenarios. mngr copies this file to the host, and `work_and_fault_steps.py` if a scenario needs it.
This file needs only Python 3.9 and its standard library.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

WAIT_REASONS = {
    "ask": "question",
    "permission": "permission",
    "wait": "end_of_turn",
}  # the steps that end a turn
PARK_REASONS = ("rate_limit", "quota", "login")  # reasons to be PARKED instead of WAITING
MAX_SHOWN_PASTE = 200  # characters; of a longer paste only the size is shown
PASTE_ON, PASTE_OFF, ARE_YOU_THERE, I_AM = b"\x1b[?2004h", b"\x1b[?2004l", b"\x1b[5n", b"\x1b[0n"
PASTE_START, PASTE_END = b"\x1b[200~", b"\x1b[201~"
KEY_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])", re.DOTALL)
PLAIN_TEXT = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]+")
JOB_FENCE = re.compile(r"^```mngr-job\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def format_paste(text: str) -> str:
    """Return what the screen shows of a paste while it waits for Enter."""
    if len(text) > MAX_SHOWN_PASTE or "\n" in text:
        return f"[pasted {len(text)} characters]"
    return "".join(char if char.isprintable() else " " for char in text)


def hash_message(text: str) -> str:
    """Return the hash that identifies a message; white space at its end does not count."""
    return hashlib.sha256(text.rstrip().encode()).hexdigest()


class PlayerExit(Exception):
    """Ends the player: after a signal, an `exit` step, or the end of the terminal."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class KeyDecoder:
    """Turns the bytes from a terminal into messages."""

    def __init__(self, lose_enters: int = 0) -> None:
        self.answered = False  # the terminal has processed everything written so far
        self.echo: list[str] = []  # what to show of the typed text
        self._raw = bytearray()
        self._line = bytearray()
        self._searched = 0  # how far the incoming paste was searched for its end
        self._lose = lose_enters

    def feed(self, data: bytes) -> list[str]:
        """Return the messages that this input completes."""
        self._raw += data
        messages: list[str] = []
        before = -1
        while self._raw and len(self._raw) != before:
            before = len(self._raw)
            if self._raw.startswith(PASTE_START):
                self._read_paste()
            elif self._raw[0] == 0x1B:
                self._read_key()
            else:
                messages.extend(self._read_plain())
        return messages

    def _read_paste(self) -> None:
        end = self._raw.find(PASTE_END, max(0, self._searched - len(PASTE_END)))
        self._searched = len(self._raw)
        if end < 0:
            return
        pasted = self._raw[len(PASTE_START) : end].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        del self._raw[: end + len(PASTE_END)]
        self._searched = 0
        self._line += pasted
        self.echo.append(format_paste(pasted.decode("utf-8", "replace")))

    def _read_key(self) -> None:
        """Consume an escape sequence: the terminal's answer is noted, other keys do nothing."""
        key = None if PASTE_START.startswith(self._raw) else KEY_SEQUENCE.match(self._raw)
        if key:
            self.answered = self.answered or key[0] == I_AM
            del self._raw[: key.end()]

    def _read_plain(self) -> list[str]:
        text = PLAIN_TEXT.match(self._raw)
        if text:
            typed = bytes(text[0])
            self._line += typed
            del self._raw[: len(typed)]
            self.echo.append(typed.decode("utf-8", "replace").replace("\t", " "))
            return []
        char = self._raw.pop(0)
        if char in b"\r\n":
            return self._press_enter()
        if char in b"\x7f\x08" and self._line:
            while self._line and self._line.pop() & 0xC0 == 0x80:
                pass  # the rest of one UTF-8 character
            self.echo.append("\b \b")
        elif char == 0x04 and not self._line:  # Ctrl-D
            raise PlayerExit(0)
        return []

    def _press_enter(self) -> list[str]:
        if self._lose > 0:
            self._lose -= 1
            return []
        text = self._line.decode("utf-8", "replace")
        self._line.clear()
        self.echo.append("\n")
        return [text] if text.strip() else []


class PlayerFiles:
    """Reads and writes the player's files in the agent's directory."""

    def __init__(self, agent_dir: str) -> None:
        self._where = agent_dir
        self._agent = os.environ.get("MNGR_AGENT_ID", os.path.basename(agent_dir))

    def read_json(self, name: str) -> Any:
        """Return what `replace_json` wrote, or None when the file is missing or empty."""
        try:
            with open(os.path.join(self._where, name), encoding="utf-8") as file:
                text = file.read()
            return json.loads(text) if text else None  # a sandbox needs a file that exists
        except FileNotFoundError:
            return None

    def replace_json(self, name: str, row: Mapping[str, object]) -> None:
        """Replace a file in one step. A sandbox allows only changes to the content, so there truncate last."""
        path = os.path.join(self._where, name)
        text = json.dumps(row) + "\n"
        if not os.access(self._where, os.W_OK):
            with open(path, "r+b", buffering=0) as existing:
                existing.truncate(existing.write(text.encode()))
            return
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)

    def append_transcript(self, role: str, text: str, **fields: Any) -> None:
        """Append a row to the transcript."""
        self._append_row("transcript.jsonl", {"v": 1, "at": format_now(), "role": role, "text": text, **fields})

    def append_event(self, kind: str, **data: Any) -> None:
        """Append a row to the events."""
        row = {
            "v": 1,
            "at": format_now(),
            "agent": self._agent,
            "type": kind,
            "source": "player",
            "data": data,
        }
        self._append_row("events.jsonl", row)

    def write_status(self, state: str, reason: str | None, until: str | None = None) -> None:
        """Write the state that `mngr list` shows."""
        row = {"state": state, "reason": reason, "source": "hook", "at": format_now()}
        self.replace_json("status", {**row, "until": until} if until else row)

    def _append_row(self, name: str, row: dict[str, object]) -> None:
        fd = os.open(os.path.join(self._where, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        remaining = memoryview(json.dumps(row).encode() + b"\n")
        try:
            while remaining:
                remaining = remaining[os.write(fd, remaining) :]
        finally:
            os.close(fd)


def format_now() -> str:
    """Return the current time in UTC, as in `2026-11-15T21:30:00.123Z`."""
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


class Player:
    """Plays the scenario. It saves its progress before it reports that it waits."""

    def __init__(self, files: PlayerFiles, scenario: dict[str, Any], work_dir: str) -> None:
        self.book = files
        self.steps: list[list[Any]] = scenario["steps"]
        self.cases: list[list[Any]] = scenario.get("cases", [])
        self.work = work_dir
        self.keys = KeyDecoder(scenario["lose_enters"])
        self.signal = 0
        self.wake, self._wake_in = os.pipe()
        saved = files.read_json("player.json")
        self.resumed = saved is not None
        self.at: dict[str, Any] = {
            "next": 0,  # the index of the step to play
            "case": None,  # the index of the chosen case, -1 for none
            "job": None,  # the last job in a message, as JSON
            "until": None,  # when the limit ends, if it waits for a limit
            "turn": scenario["start"] == "now",
            "reason": "end_of_turn",  # why it waits when it is not in a turn
            "current": None,  # the first line of the message that this turn answers
            "pending": [],  # the first lines of the messages that came since
            **(saved or {}),
        }

    def run(self) -> None:
        """Play until an `exit` step, a signal or the end of the terminal."""
        self._listen_for_signals()
        if os.isatty(0):
            self._write_terminal(PASTE_ON + ARE_YOU_THERE)
            self._read_input(1.0, until_answered=True)
        self.book.append_event("ready", resumed=self.resumed)
        self._show_text("player: resumed\n" if self.resumed else "player: ready\n")
        if not self.at["turn"]:
            self._report_waiting()
        while True:
            if self.at["turn"]:
                self._play_turn()
            elif self.at["pending"]:
                self._save_progress(turn=True, current=self.at["pending"].pop(0))
            else:
                self._read_input(None)

    def _play_turn(self) -> None:
        """Play steps until the turn ends."""
        self.book.write_status("RUNNING", None)
        self.book.append_event("turn_start", step=self.at["next"])
        if self.cases:
            self.steps = self._load_steps_module().choose_steps(self)
        if self.at["next"] >= len(self.steps) and self.at["current"] is not None:
            self._record_reply("ok: " + self.at["current"])
        end: dict[str, Any] = {"reason": "end_of_turn", "next": len(self.steps)}
        while self.at["next"] < len(self.steps):
            verb, value = self.steps[self.at["next"]]
            next_step = self.at["next"] + 1
            turn_end = self._play_step(verb, value)
            if turn_end is not None:
                end = {"next": next_step, **turn_end}
                break
            self._save_progress(next=next_step)
            self._read_input(0)
        self._save_progress(**{"until": None, **end}, turn=False)
        self.book.append_event("turn_end", reason=end["reason"])
        self._report_waiting()

    def _play_step(self, verb: str, value: Any) -> dict[str, Any] | None:
        """Play one step; return the progress to save if it ends the turn, else None."""
        if verb in ("reply", "ask", "permission"):
            self._record_reply(value)
        elif verb == "sleep":
            self._show_text(f"* sleeping {value} s\n")
            self._read_input(value)
        elif verb == "hang":
            self._show_text("* hanging\n")
            select.select([self.wake], [], [])
            self._exit_if_signalled()
        elif verb == "write":
            self._record_tool_call(verb, value, self._write_file(value))
        elif verb == "commit":
            self._record_tool_call(verb, {"message": value}, self._commit(value))
        elif verb == "exit":
            self._save_progress(next=self.at["next"] + 1, turn=False)
            self.book.append_event("turn_end", reason="exit")
            raise PlayerExit(int(value))
        elif verb not in WAIT_REASONS:
            turn_end: dict[str, Any] | None = self._load_steps_module().play_step(self, verb, value)
            return turn_end
        return {"reason": WAIT_REASONS[verb]} if verb in WAIT_REASONS else None

    def _load_steps_module(self) -> Any:
        """Import `work_and_fault_steps.py`, which is beside this file on the host."""
        import importlib

        sys.dont_write_bytecode = True
        return importlib.import_module("work_and_fault_steps")

    def _report_waiting(self) -> None:
        """Report that the player waits, unless a message is already here."""
        if not self.at["pending"]:
            parked = self.at["reason"] in PARK_REASONS
            self.book.append_event("parked" if parked else "waiting", reason=self.at["reason"])
            self.book.write_status("PARKED" if parked else "WAITING", self.at["reason"], self.at["until"])
            self._show_text("> ")

    def _receive_message(self, text: str) -> None:
        """Record a message. The status changes before the event, so no reader sees a delivered message and WAITING."""
        self.book.append_transcript("user", text)
        jobs = JOB_FENCE.findall(text) if self.steps or self.cases else []
        job = jobs[-1] if jobs else self.at["job"]  # the last one, because text before it may quote other jobs
        self._save_progress(pending=[*self.at["pending"], self._select_remembered(text)], job=job)
        self.book.write_status("RUNNING", None)
        self.book.append_event("message", sha256=hash_message(text), characters=len(text))

    def _select_remembered(self, text: str) -> str:
        """Return the part of a message that is kept until it is answered."""
        return text.strip().split("\n", 1)[0][:MAX_SHOWN_PASTE]

    def _record_reply(self, text: str) -> None:
        self.book.append_transcript("assistant", text, model="player")
        self._show_text(f"{text}\n")

    def _record_tool_call(self, tool: str, tool_input: Mapping[str, object], output: str) -> None:
        self.book.append_transcript("tool", "", tool=tool, input=tool_input, output=output)
        self._show_text(f"* {tool} {tool_input.get('path') or tool_input.get('message') or ''}: {output}\n")

    def _write_file(self, value: dict[str, str]) -> str:
        path = os.path.join(self.work, os.path.expandvars(value["path"]))
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "a" if "append" in value else "w", encoding="utf-8") as file:
                file.write(value.get("append", value.get("content", "")))
        except OSError as error:
            return f"failed: {error}"
        return "done"

    def _commit(self, message: str, *paths: str) -> str:
        import subprocess

        for arguments in (
            ["add", "-A", "--", *paths],
            ["commit", "--quiet", "--message", message],
            ["rev-parse", "HEAD"],
        ):
            result = subprocess.run(
                ["git", *arguments], cwd=self.work, capture_output=True, stdin=subprocess.DEVNULL, check=False
            )
            self._exit_if_signalled()
            if result.returncode:
                return "failed: " + (result.stderr or result.stdout).decode("utf-8", "replace").strip()
        return result.stdout.decode().strip()

    def _save_progress(self, **changes: Any) -> None:
        self.at = {**self.at, **changes}
        self.book.replace_json("player.json", self.at)

    def _read_input(self, seconds: float | None, *, until_answered: bool = False) -> None:
        """Process terminal input for `seconds`; with None, wait until some input has come."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not (until_answered and self.keys.answered):
            remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = select.select([0, self.wake], [], [], remaining)[0]
            self._exit_if_signalled()
            if 0 in ready:
                self._read_terminal()
            if deadline is None or (not ready and time.monotonic() >= deadline):
                return

    def _read_terminal(self) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if not data:
            raise PlayerExit(129)
        messages = self.keys.feed(data)
        self._show_text("".join(self.keys.echo))
        self.keys.echo.clear()
        for text in messages:
            self._receive_message(text)

    def _show_text(self, text: str) -> None:
        self._write_terminal(text.encode("utf-8", "replace"))

    def _write_terminal(self, data: bytes) -> None:
        remaining = memoryview(data)
        try:
            while remaining:
                remaining = remaining[os.write(1, remaining) :]
        except OSError:
            raise PlayerExit(129) from None

    def _listen_for_signals(self) -> None:
        def remember_signal(number: int, _: object) -> None:
            self.signal = number

        os.set_blocking(self._wake_in, False)
        signal.set_wakeup_fd(self._wake_in)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, remember_signal)

    def _exit_if_signalled(self) -> None:
        if self.signal:
            raise PlayerExit(128 + self.signal)


def main() -> int:
    """Play in this terminal and return the exit code."""
    return run_player(lambda files, work_dir: Player(files, files.read_json("scenario.json"), work_dir))


def run_player(make: Callable[[PlayerFiles, str], Player]) -> int:
    """Run the player that `make` returns in this terminal until it ends; return the exit code."""
    files = PlayerFiles(os.environ.get("MNGR_AGENT_DIR") or os.path.dirname(os.path.abspath(__file__)))
    settings = _set_raw_mode()
    try:
        make(files, os.environ.get("MNGR_WORK_DIR") or os.getcwd()).run()
    except PlayerExit as end:
        return end.code
    finally:
        _restore_terminal(settings)
    return 0


def _set_raw_mode() -> list[Any] | None:
    """Deliver every key as it is typed, except Ctrl-C; return the previous terminal settings."""
    if not os.isatty(0):
        return None
    import termios

    settings = termios.tcgetattr(0)
    raw = termios.tcgetattr(0)
    raw[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.ISTRIP)
    raw[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
    termios.tcsetattr(0, termios.TCSANOW, raw)
    return settings


def _restore_terminal(settings: list[Any] | None) -> None:
    if settings is None:
        return
    import termios

    try:
        os.write(1, PASTE_OFF + b"\n")
        termios.tcsetattr(0, termios.TCSANOW, settings)
    except (OSError, termios.error):
        pass  # the terminal is gone


if __name__ == "__main__":
    sys.exit(main())
