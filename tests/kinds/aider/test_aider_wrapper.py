"""What runs aider, without it: the letters it takes and what it tells."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mngr.base.model import AgentRecord, Evidence
from mngr.kinds.aider.aider_wrapper import AiderSession, classify_error, wrap_coder, wrap_terminal
from mngr.kinds.aider.kind import LAUNCH_SCRIPT, AiderKind

KIND = AiderKind("aider", dict)
MADE = "2026-11-16T04:00:00.000Z"
RECORD = AgentRecord(
    id="a-0123456789ab", name="foo", kind="aider", phase="ready", project="p", source=None, work_dir="/w",
    transfer="none", created_at=MADE,
)  # fmt: skip


class Terminal:
    """As much of aider's terminal as is wrapped."""

    yes: bool | None = None
    prompt_session = None
    placeholder: str | None = None

    def __init__(self) -> None:
        self.shown: list[str] = []

    def get_input(self) -> str:
        return "typed"

    def confirm_ask(self, question: str, subject: str | None = None) -> bool:
        return True

    def tool_output(self, *messages: str) -> None:
        pass

    def user_input(self, text: str, log_only: bool = True) -> None:
        self.shown.append(text)


class Model:
    name = "openai/fake-model"


class Coder:
    """The same of what talks to the model."""

    main_model = Model()
    usage_report = "Tokens: 792 sent, 13 received."
    message_tokens_sent, message_tokens_received, message_cost = 792, 13, 0.0
    partial_response_content = "all done"

    def send(self) -> None:
        pass

    def show_usage_report(self) -> None:
        pass

    def add_assistant_reply_to_cur_messages(self) -> None:
        pass

    def check_and_open_urls(self, error: Exception) -> None:
        pass


@pytest.fixture
def agent(tmp_path: Path) -> AiderSession:
    (tmp_path / "inbox").mkdir()
    return AiderSession(str(tmp_path))


def told(agent: AiderSession) -> tuple[str, str]:
    status = json.loads((Path(agent.directory) / "status").read_text())
    return status["state"], status["reason"]


def rows(agent: AiderSession, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(agent.directory) / name).read_text().splitlines()]


def made(agent: AiderSession) -> tuple[Any, Any]:
    terminal = type("InputOutput", (Terminal,), {})
    coder = type("Coder", (Coder,), {})
    wrap_terminal(agent, terminal)
    wrap_coder(agent, coder)
    return terminal(), coder()


def test_a_turn_is_told_and_kept(agent: AiderSession) -> None:
    terminal, coder = made(agent)
    assert terminal.get_input() == "typed"
    assert told(agent) == ("RUNNING", "")
    coder.send()
    coder.show_usage_report()
    coder.add_assistant_reply_to_cur_messages()
    terminal.get_input()
    said = rows(agent, "transcript.jsonl")
    assert [(row["role"], row["text"]) for row in said[:2]] == [("user", "typed"), ("assistant", "all done")]
    assert said[1]["usage"] == {"input_tokens": 792, "output_tokens": 13}
    assert said[1]["model"] == "openai/fake-model"
    assert [row["type"] for row in rows(agent, "events.jsonl")] == ["message", "turn_end", "message"]
    assert list(KIND.parse_transcript((Path(agent.directory) / "transcript.jsonl").read_bytes().split(b"\n"))) == said


def test_a_letter_goes_before_the_prompt(agent: AiderSession) -> None:
    terminal, _ = made(agent)
    (Path(agent.directory) / "inbox/1.2.message").write_text("{ not a\n/command")
    (Path(agent.directory) / "inbox/.3").write_text("half")
    assert terminal.get_input() == "{ not a\n/command"
    assert terminal.shown == ["{ not a\n/command"] and terminal.get_input() == "typed"


def test_it_waits_for_a_permission(agent: AiderSession) -> None:
    terminal, _ = made(agent)
    seen: list[tuple[str, str]] = []
    (Path(agent.directory) / "inbox/1.2.allow").write_text("")

    def ask(self: Any, question: str) -> bool:
        seen.append(told(agent))
        return not list((Path(agent.directory) / "inbox").iterdir())

    type(terminal).confirm_ask = ask
    wrap_terminal(agent, type(terminal))
    assert terminal.confirm_ask("Create new file?")  # and an old answer is none
    assert seen == [("WAITING", "permission")] and told(agent) == ("RUNNING", "")
    terminal.yes = True
    terminal.confirm_ask("Create new file?")
    assert seen[1] == ("RUNNING", "")


def test_troubles(agent: AiderSession) -> None:
    terminal, coder = made(agent)
    terminal.get_input()
    terminal.tool_output("Retrying in 0.2 seconds...")
    assert told(agent) == ("RUNNING", "retrying")
    coder.send()
    assert told(agent) == ("RUNNING", "")
    coder.check_and_open_urls(RuntimeError("litellm.AuthenticationError: OpenAIException - invalid x-api-key"))
    agent.report_waiting()
    status = json.loads((Path(agent.directory) / "status").read_text())
    pane = {"dead": "0", "title": ""}
    state = KIND.state(RECORD, Evidence(now=0.0, pane=pane, hook_status=status))
    assert (state.state, state.reason) == ("PARKED", "login")


@pytest.mark.parametrize(
    ("error", "word"),
    [
        ("RateLimitError: litellm.RateLimitError: OpenAIException - slow down", "rate_limit"),
        ("RateLimitError: You exceeded your current quota, check your plan and billing", "usage_limit"),
        ("AuthenticationError: litellm.AuthenticationError: no", "authentication_failed"),
        ("InternalServerError: Connection error.", "failed"),
    ],
)
def test_words_for_errors(error: str, word: str) -> None:
    assert classify_error(error) == word


def test_a_place_that_is_gone_is_told(agent: AiderSession) -> None:
    wrap_coder(agent, type("Coder", (), {}))
    assert {row["type"] for row in rows(agent, "events.jsonl")} == {"fault"}


@pytest.mark.parametrize("first", ["#!{python}\n", '#!/bin/sh\n\'\'\'exec\' "{python}" "$0" "$@"\n'])
def test_it_is_run_by_its_own_python(tmp_path: Path, first: str) -> None:
    """Whose path stands in the program, as pip and others write it."""
    program = tmp_path / "aider"
    program.write_text(first.format(python=sys.executable))
    program.chmod(0o755)
    inside = tmp_path / "inside.py"
    inside.write_text("import sys; print(sys.executable, *sys.argv[1:])")
    argv = ["sh", "-c", LAUNCH_SCRIPT, "aider", str(program), str(inside), "--model", "two words"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == f"{sys.executable} --model two words\n"
