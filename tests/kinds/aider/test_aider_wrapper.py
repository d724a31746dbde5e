"""The wrapper around aider, tested without aider: the messages it takes, and what it reports."""

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
    """The parts of aider's terminal that are wrapped."""

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
    """The wrapped parts of the class that talks to the model."""

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


def read_status(agent: AiderSession) -> tuple[str, str]:
    status = json.loads((Path(agent.directory) / "status").read_text())
    return status["state"], status["reason"]


def read_rows(agent: AiderSession, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(agent.directory) / name).read_text().splitlines()]


def wrap_aider(agent: AiderSession) -> tuple[Any, Any]:
    terminal = type("InputOutput", (Terminal,), {})
    coder = type("Coder", (Coder,), {})
    wrap_terminal(agent, terminal)
    wrap_coder(agent, coder)
    return terminal(), coder()


def test_a_turn_is_reported_and_recorded(agent: AiderSession) -> None:
    terminal, coder = wrap_aider(agent)
    assert terminal.get_input() == "typed"
    assert read_status(agent) == ("RUNNING", "")
    coder.send()
    coder.show_usage_report()
    coder.add_assistant_reply_to_cur_messages()
    terminal.get_input()
    transcript = read_rows(agent, "transcript.jsonl")
    assert [(row["role"], row["text"]) for row in transcript[:2]] == [("user", "typed"), ("assistant", "all done")]
    assert transcript[1]["usage"] == {"input_tokens": 792, "output_tokens": 13}
    assert transcript[1]["model"] == "openai/fake-model"
    assert [row["type"] for row in read_rows(agent, "events.jsonl")] == ["message", "turn_end", "message"]
    parsed = KIND.parse_transcript((Path(agent.directory) / "transcript.jsonl").read_bytes().split(b"\n"))
    for entry, row in zip(parsed, transcript, strict=True):
        assert entry.to_dict().items() >= row.items()


def test_a_message_in_the_inbox_comes_before_the_prompt(agent: AiderSession) -> None:
    terminal, _ = wrap_aider(agent)
    (Path(agent.directory) / "inbox/1.2.message").write_text("{ not a\n/command")
    (Path(agent.directory) / "inbox/.3").write_text("half")
    assert terminal.get_input() == "{ not a\n/command"
    assert terminal.shown == ["{ not a\n/command"] and terminal.get_input() == "typed"


def test_it_waits_while_aider_asks_for_permission(agent: AiderSession) -> None:
    terminal, _ = wrap_aider(agent)
    statuses: list[tuple[str, str]] = []
    (Path(agent.directory) / "inbox/1.2.allow").write_text("")

    def ask(self: Any, question: str) -> bool:
        statuses.append(read_status(agent))
        return not list((Path(agent.directory) / "inbox").iterdir())

    type(terminal).confirm_ask = ask
    wrap_terminal(agent, type(terminal))
    assert terminal.confirm_ask("Create new file?")  # an old answer does not count
    assert statuses == [("WAITING", "permission")] and read_status(agent) == ("RUNNING", "")
    terminal.yes = True
    terminal.confirm_ask("Create new file?")
    assert statuses[1] == ("RUNNING", "")


def test_a_retry_and_a_refused_login_change_the_state(agent: AiderSession) -> None:
    terminal, coder = wrap_aider(agent)
    terminal.get_input()
    terminal.tool_output("Retrying in 0.2 seconds...")
    assert read_status(agent) == ("RUNNING", "retrying")
    coder.send()
    assert read_status(agent) == ("RUNNING", "")
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
def test_errors_are_classified(error: str, word: str) -> None:
    assert classify_error(error) == word


def test_a_missing_method_is_reported_as_a_fault(agent: AiderSession) -> None:
    wrap_coder(agent, type("Coder", (), {}))
    assert {row["type"] for row in read_rows(agent, "events.jsonl")} == {"fault"}


@pytest.mark.parametrize("first", ["#!{python}\n", '#!/bin/sh\n\'\'\'exec\' "{python}" "$0" "$@"\n'])
def test_the_launcher_uses_the_python_that_aider_names(tmp_path: Path, first: str) -> None:
    """The path of Python is in the program's first or second line, as pip and others write it."""
    program = tmp_path / "aider"
    program.write_text(first.format(python=sys.executable))
    program.chmod(0o755)
    script = tmp_path / "inside.py"
    script.write_text("import sys; print(sys.executable, *sys.argv[1:])")
    argv = ["sh", "-c", LAUNCH_SCRIPT, "aider", str(program), str(script), "--model", "two words"]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert result.stdout == f"{sys.executable} --model two words\n"
