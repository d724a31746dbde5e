"""Runs aider inside aider's own Python, reports its state, keeps its conversation and delivers messages.

aider has no hooks. This file wraps the few methods in which aider asks, sends and waits. If such a method no longer
exists, it reports a `fault`. It needs nothing but aider and Python 3.9.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

POLL_INTERVAL = 0.05  # seconds between two checks of the inbox
MAX_ERROR_LENGTH = 2000  # characters of an error that are kept
ERROR_REASONS = (
    ("usage_limit", r"quota|billing|credit|usage.?limit|\b402\b"),
    ("authentication_failed", r"Authentication|PermissionDenied|\b40[13]\b|api.?key"),
    ("rate_limit", r"RateLimit|Overloaded|ServiceUnavailable|\b(429|529|503)\b|rate.?limit"),
)


class PromptInterrupted(BaseException):
    """Closes an open prompt for a message. Holds the message and the text that somebody had typed there."""


class AiderSession:
    """Tracks what aider is doing, and writes its status, events and transcript."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.last_status: dict[str, str] | None = None
        self.trouble: dict[str, str] = {}
        self.usage: dict[str, float] | None = None
        self.is_busy = False
        self.late: tuple[str, str] | None = None  # a message whose prompt was already closed
        self.open: tuple[Any, str] | None = None  # the prompt on the screen, and "message" or "permission"

    def append_row(self, name: str, **row: Any) -> None:
        text = json.dumps({"v": 1, "at": format_now(), **row}, ensure_ascii=False, separators=(",", ":"))
        try:
            with open(os.path.join(self.directory, name), "ab") as file:
                file.write(text.encode("utf-8", "replace") + b"\n")
        except OSError:
            pass  # A lost row must not stop the agent's work.

    def append_event(self, kind: str, **data: Any) -> None:
        agent = os.path.basename(self.directory)
        self.append_row("events.jsonl", agent=agent, type=kind, source="hook", data=data)

    def report_state(self, state: str, reason: str = "", **error: str) -> None:
        status = {"state": state, "reason": reason, **error}
        if status == self.last_status:
            return
        self.last_status = status
        path = os.path.join(self.directory, "status")
        text = json.dumps({**status, "at": format_now()}) + "\n"
        try:
            with open(f"{path}.{os.getpid()}", "w") as file:
                file.write(text)
            os.replace(f"{path}.{os.getpid()}", path)
        except OSError:  # A sandbox allows only changes to the content of the file.
            with open(path, "r+") as file:
                file.write(text)
                file.truncate()

    def report_waiting(self) -> None:
        """Report that aider waits for the next message, and that the turn ended if one was running."""
        self.report_state("WAITING", "end_of_turn", **self.trouble)
        if self.is_busy:
            self.append_event("turn_failed" if self.trouble else "turn_end", **self.trouble)
        self.is_busy = False

    def begin_turn(self, text: str) -> None:
        self.is_busy, self.trouble = True, {}
        self.report_state("RUNNING")
        self.append_row("transcript.jsonl", role="user", text=text)
        self.append_event("message", prompt=text)

    def record_answer(self, text: str, model: str) -> None:
        self.append_row("transcript.jsonl", role="assistant", text=text, model=model, usage=self.usage)
        self.usage = None

    def record_failure(self, error: str, model: str) -> None:
        self.trouble = {"error": classify_error(error)}
        self.record_answer(error[:MAX_ERROR_LENGTH], model)

    def take_message(self, *endings: str) -> tuple[str, str] | None:
        """Return (ending, text) of the first file in the inbox with one of these endings, or None.

        Deleting the file decides who has the message: the wrapper, or a sender that stopped waiting.
        """
        inbox = os.path.join(self.directory, "inbox")
        try:
            for name in sorted(os.listdir(inbox)):
                ending = name.rpartition(".")[2]
                if ending in endings and not name.startswith("."):
                    with open(os.path.join(inbox, name), encoding="utf-8") as file:
                        text = file.read()
                    os.unlink(os.path.join(inbox, name))
                    return ending, text
        except OSError:
            pass  # The next check tries again.
        return None

    def watch_inbox(self) -> None:
        """Close the prompt on the screen as soon as the inbox holds a file for it. Never returns."""
        while True:
            time.sleep(POLL_INTERVAL)
            session, awaited = self.open or (None, "")
            app = getattr(session, "app", None)
            if app is None or not app.is_running or app.loop is None:
                continue
            message = self.take_message("allow", "deny") if awaited == "permission" else self.take_message("message")
            if message is not None:
                self.open = None
                app.loop.call_soon_threadsafe(self.close_prompt, app, message)

    def close_prompt(self, app: Any, message: tuple[str, str]) -> None:
        ending, text = message
        if app.is_done:  # somebody answered at the terminal first
            self.late = message if ending == "message" else None
        elif ending == "message":
            app.exit(exception=PromptInterrupted(text, app.current_buffer.text))
        else:
            app.exit(result="y" if ending == "allow" else "n")


def format_now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def classify_error(error: str) -> str:
    """Return the name for the error that ended a turn, in the vocabulary that all kinds share."""
    return next((reason for reason, pattern in ERROR_REASONS if re.search(pattern, error, re.IGNORECASE)), "failed")


def wrap_terminal(agent: AiderSession, terminal: Any) -> None:
    """Wrap the methods with which aider prompts, asks for confirmation and prints."""

    def get_input(original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
            agent.report_waiting()
            message, agent.late = agent.late or agent.take_message("message"), None
            agent.open = (self.prompt_session, "message")
            try:
                if message is not None:
                    raise PromptInterrupted(message[1], "")
                text = original(self, *args, **kwargs)
            except PromptInterrupted as interruption:
                text, typed = interruption.args
                self.placeholder = typed or None  # The next prompt shows the typed text again.
                self.user_input(text, log_only=False)
            finally:
                agent.open = None
            if text and text.strip():
                agent.begin_turn(text)
            return text

        return ask

    def confirm_ask(original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(self: Any, question: str, *args: Any, **kwargs: Any) -> Any:
            if self.yes is not None:
                return original(self, question, *args, **kwargs)
            agent.take_message("allow", "deny")  # An answer given earlier belongs to an earlier question.
            agent.open = (self.prompt_session, "permission")
            agent.append_event(
                "permission", question=question, subject=str(kwargs.get("subject") or "")[:MAX_ERROR_LENGTH]
            )
            agent.report_state("WAITING", "permission")
            try:
                return original(self, question, *args, **kwargs)
            finally:
                agent.open = None
                agent.report_state("RUNNING")

        return ask

    def tool_output(original: Callable[..., Any]) -> Callable[..., Any]:
        def say(self: Any, *messages: Any, **kwargs: Any) -> Any:
            if messages and str(messages[0]).startswith("Retrying in "):
                agent.report_state("RUNNING", "retrying")
            return original(self, *messages, **kwargs)

        return say

    replace_methods(agent, terminal, get_input=get_input, confirm_ask=confirm_ask, tool_output=tool_output)


def wrap_coder(agent: AiderSession, coder: Any) -> None:
    """Wrap the methods with which aider calls the model and records the answer."""

    def send(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            agent.report_state("RUNNING")
            return original(self, *args, **kwargs)

        return run

    def show_usage_report(original: Callable[..., Any]) -> Callable[..., Any]:
        def show(self: Any) -> Any:
            if self.usage_report:
                usage = {
                    "input_tokens": self.message_tokens_sent,
                    "output_tokens": self.message_tokens_received,
                }
                # A cost of 0 means that aider does not know the price.
                agent.usage = {**usage, "cost_usd": self.message_cost} if self.message_cost else usage
            return original(self)

        return show

    def add_reply(original: Callable[..., Any]) -> Callable[..., Any]:
        def add(self: Any) -> Any:
            if self.partial_response_content:
                agent.record_answer(self.partial_response_content, self.main_model.name)
            return original(self)

        return add

    def give_up(original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(self: Any, error: Any, *args: Any, **kwargs: Any) -> Any:
            agent.record_failure(f"{type(error).__name__}: {error}", self.main_model.name)
            return original(self, error, *args, **kwargs)

        return ask

    replace_methods(agent, coder, send=send, show_usage_report=show_usage_report)
    replace_methods(agent, coder, add_assistant_reply_to_cur_messages=add_reply, check_and_open_urls=give_up)


def replace_methods(agent: AiderSession, owner: Any, **wrappers: Callable[..., Any]) -> None:
    """Replace each method of `owner` by its wrapped version; report a fault for a method that does not exist."""
    for name, wrap in wrappers.items():
        original = getattr(owner, name, None)
        if original is None:
            agent.append_event("fault", message=f"aider has no {owner.__name__}.{name}")
        else:
            setattr(owner, name, wrap(original))


def main() -> None:
    sys.path.pop(0)  # Remove the agent's directory, so that nothing there is imported.
    program = importlib.import_module("aider.main")
    # aider would ask a person whether to report a crash.
    vars(program)["report_uncaught_exceptions"] = lambda: None
    agent = AiderSession(os.environ["MNGR_AGENT_DIR"])
    wrap_terminal(agent, importlib.import_module("aider.io").InputOutput)
    wrap_coder(agent, importlib.import_module("aider.coders.base_coder").Coder)
    # By default aider would create the tags cache in the work dir.
    importlib.import_module("aider.repomap").RepoMap.TAGS_CACHE_DIR = os.path.join(agent.directory, "aider/tags")
    threading.Thread(target=agent.watch_inbox, daemon=True).start()
    sys.argv[0] = "aider"
    sys.exit(program.main())


if __name__ == "__main__":
    main()
