"""Run by aider's own Python in aider's place: aider, and beside it what tells of it, keeps its conversation and takes messages.

aider has no hooks. What is wrapped here are the few places where it asks, sends and waits; one that is not there any more is
told as a `fault`. Needs nothing but aider and Python 3.9.
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

POLL_INTERVAL = 0.05  # seconds between two looks for letters
MAX_ERROR_LENGTH = 2000  # characters of an error
ERROR_REASONS = (
    ("usage_limit", r"quota|billing|credit|usage.?limit|\b402\b"),
    ("authentication_failed", r"Authentication|PermissionDenied|\b40[13]\b|api.?key"),
    ("rate_limit", r"RateLimit|Overloaded|ServiceUnavailable|\b(429|529|503)\b|rate.?limit"),
)


class PromptInterrupted(BaseException):
    """A message that came while the prompt was open, and what somebody had typed there."""


class AiderSession:
    """What we know of aider, and how it is told."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.said: dict[str, str] | None = None
        self.trouble: dict[str, str] = {}
        self.usage: dict[str, Any] | None = None
        self.is_busy = False
        self.late: tuple[str, str] | None = None  # a letter that found its prompt closed
        self.open: tuple[Any, str] | None = None  # the prompt on the screen and what it waits for

    def append_row(self, name: str, **row: Any) -> None:
        text = json.dumps({"v": 1, "at": format_now(), **row}, ensure_ascii=False, separators=(",", ":"))
        try:
            with open(os.path.join(self.directory, name), "ab") as file:
                file.write(text.encode("utf-8", "replace") + b"\n")
        except OSError:
            pass  # it is not worth the agent's work

    def append_event(self, kind: str, **data: Any) -> None:
        agent = os.path.basename(self.directory)
        self.append_row("events.jsonl", agent=agent, type=kind, source="hook", data=data)

    def report_state(self, state: str, reason: str = "", **more: str) -> None:
        now = {"state": state, "reason": reason, **more}
        if now == self.said:
            return
        self.said = now
        path = os.path.join(self.directory, "status")
        text = json.dumps({**now, "at": format_now()}) + "\n"
        try:
            with open(f"{path}.{os.getpid()}", "w") as file:
                file.write(text)
            os.replace(f"{path}.{os.getpid()}", path)
        except OSError:  # in a sandbox only its contents can be changed
            with open(path, "r+") as file:
                file.write(text)
                file.truncate()

    def report_waiting(self) -> None:
        """It waits for the next message."""
        self.report_state("WAITING", "end_of_turn", **self.trouble)
        if self.is_busy:
            self.append_event("turn_failed" if self.trouble else "turn_end", **self.trouble)
        self.is_busy = False

    def begin(self, text: str) -> None:
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
        """(ending, text) of the first letter; whoever takes a file away has it: we, or the sender who would wait no longer."""
        box = os.path.join(self.directory, "inbox")
        try:
            for name in sorted(os.listdir(box)):
                ending = name.rpartition(".")[2]
                if ending in endings and not name.startswith("."):
                    with open(os.path.join(box, name), encoding="utf-8") as file:
                        text = file.read()
                    os.unlink(os.path.join(box, name))
                    return ending, text
        except OSError:
            pass  # the next look will do
        return None

    def watch_inbox(self) -> None:
        """Close the prompt that is on the screen when a letter is for it."""
        while True:
            time.sleep(POLL_INTERVAL)
            session, wants = self.open or (None, "")
            app = getattr(session, "app", None)
            if app is None or not app.is_running or app.loop is None:
                continue
            letter = self.take_message("allow", "deny") if wants == "permission" else self.take_message("message")
            if letter is not None:
                self.open = None
                app.loop.call_soon_threadsafe(self.close_prompt, app, letter)

    def close_prompt(self, app: Any, letter: tuple[str, str]) -> None:
        ending, text = letter
        if app.is_done:  # somebody was faster at the terminal
            self.late = letter if ending == "message" else None
        elif ending == "message":
            app.exit(exception=PromptInterrupted(text, app.current_buffer.text))
        else:
            app.exit(result="y" if ending == "allow" else "n")


def format_now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def classify_error(error: str) -> str:
    """What ended a turn, in the words of all programs."""
    return next((word for word, pattern in ERROR_REASONS if re.search(pattern, error, re.IGNORECASE)), "failed")


def wrap_terminal(agent: AiderSession, terminal: Any) -> None:
    """Its questions and its prompt."""

    def get_input(original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
            agent.report_waiting()
            letter, agent.late = agent.late or agent.take_message("message"), None
            agent.open = (self.prompt_session, "message")
            try:
                if letter is not None:
                    raise PromptInterrupted(letter[1], "")
                text = original(self, *args, **kwargs)
            except PromptInterrupted as taken:
                text, typed = taken.args
                self.placeholder = typed or None  # it stands there again afterwards
                self.user_input(text, log_only=False)
            finally:
                agent.open = None
            if text and text.strip():
                agent.begin(text)
            return text

        return ask

    def confirm_ask(original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(self: Any, question: str, *args: Any, **kwargs: Any) -> Any:
            if self.yes is not None:
                return original(self, question, *args, **kwargs)
            agent.take_message("allow", "deny")  # an answer is to what was asked before it was given
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
    """What it says to the model and hears from it."""

    def send(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            agent.report_state("RUNNING")
            return original(self, *args, **kwargs)

        return run

    def show_usage_report(original: Callable[..., Any]) -> Callable[..., Any]:
        def show(self: Any) -> Any:
            if self.usage_report:
                used = {
                    "input_tokens": self.message_tokens_sent,
                    "output_tokens": self.message_tokens_received,
                }
                # 0 is a price it does not know.
                agent.usage = {**used, "cost_usd": self.message_cost} if self.message_cost else used
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


def replace_methods(agent: AiderSession, owner: Any, **places: Callable[..., Any]) -> None:
    """Put what each makes of the original in the place of a method, if that is there."""
    for name, make in places.items():
        original = getattr(owner, name, None)
        if original is None:
            agent.append_event("fault", message=f"aider has no {owner.__name__}.{name}")
        else:
            setattr(owner, name, make(original))


def main() -> None:
    sys.path.pop(0)  # this directory: it is the agent's
    program = importlib.import_module("aider.main")
    # It would ask a person whether to report its crash.
    vars(program)["report_uncaught_exceptions"] = lambda: None
    agent = AiderSession(os.environ["MNGR_AGENT_DIR"])
    wrap_terminal(agent, importlib.import_module("aider.io").InputOutput)
    wrap_coder(agent, importlib.import_module("aider.coders.base_coder").Coder)
    # Else they would lie in the work dir.
    importlib.import_module("aider.repomap").RepoMap.TAGS_CACHE_DIR = os.path.join(agent.directory, "aider/tags")
    threading.Thread(target=agent.watch_inbox, daemon=True).start()
    sys.argv[0] = "aider"
    sys.exit(program.main())


if __name__ == "__main__":
    main()
