"""Chooses the step that answers a request, and tracks the progress of each session."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from mngr.base.errors import UsageError
from mngr.testkit.modelserver.request import ConversationTurn, ModelRequest
from mngr.testkit.modelserver.script import ModelScript, ScriptedStep, Steps, parse_match, parse_steps

DEFAULT_STEP = ScriptedStep(text="ok")
_INLINE_SCRIPT = re.compile(r"<fake>(.*?)</fake>", re.S)
_NAMED_SCRIPT = re.compile(r"fake-script:([A-Za-z0-9_.-]+)")
_MAX_COUNTS = 10_000


@dataclass(frozen=True)
class ScheduledStep:
    """The step for one request, its source, and the fault for this request."""

    step: ScriptedStep
    source: str  # prompt | named | script | end | aside
    number: int | None = None  # the number of the step, from 1
    request_count: int = 1
    fault: str | None = None


@dataclass
class _SessionPlayback:
    """A session's script and its progress."""

    steps: Steps
    match: str
    next_step: int = 0
    request_counts: list[int] = field(default_factory=list)


class Playback:
    """The progress of all sessions. Safe to use from several threads."""

    def __init__(self, script: ModelScript) -> None:
        self._script = script
        self._named = dict(script.named)
        self._sessions: dict[str, _SessionPlayback] = {}
        self._counts: OrderedDict[tuple[str, int, int, str], int] = OrderedDict()
        self._lock = threading.Lock()

    def set_script(self, session: str, steps: object, match: object = "tools") -> None:
        """Replace the script of a session and start at its first step."""
        session_playback = _new_session(parse_steps(steps), parse_match(match))
        with self._lock:
            self._sessions[session] = session_playback

    def set_named_script(self, name: str, steps: object) -> None:
        """Set the steps that `fake-script:NAME` in a prompt selects."""
        parsed = parse_steps(steps)
        with self._lock:
            self._named[name] = parsed

    def reset(self, session: str | None = None) -> None:
        """Restart one session, or all of them."""
        with self._lock:
            if session is None:
                self._sessions.clear()
                self._counts.clear()
                self._named = dict(self._script.named)
            else:
                self._sessions.pop(session, None)

    def count_requests(self, session: str) -> list[int]:
        """Return how many requests each step of a session's script got."""
        with self._lock:
            return list(self._get_session(session).request_counts)

    def choose_step(self, request: ModelRequest) -> ScheduledStep:
        """Return the step that answers a request. Raise UsageError when the prompt holds an invalid script."""
        if request.is_side_request:
            return ScheduledStep(ScriptedStep(text=request.side_answer), "aside")
        prompt_script = self._find_prompt_script(request.parsed.turns)
        if prompt_script:
            return self._choose_prompt_step(request, *prompt_script)
        with self._lock:
            session_playback = self._get_session(request.session)
            if not request.parsed.tools and session_playback.match != "all":
                return ScheduledStep(ScriptedStep(text=request.side_answer), "aside")
            if session_playback.next_step >= len(session_playback.steps):
                return ScheduledStep(DEFAULT_STEP, "end")
            index = session_playback.next_step
            session_playback.request_counts[index] += 1
            fault = session_playback.steps[index].find_fault(session_playback.request_counts[index])
            session_playback.next_step += fault is None  # a scripted fault does not use up the step
            return ScheduledStep(
                session_playback.steps[index], "script", index + 1, session_playback.request_counts[index], fault
            )

    def _get_session(self, session: str) -> _SessionPlayback:
        if session not in self._sessions:
            steps = self._script.sessions.get(session, self._script.steps)
            self._sessions[session] = _new_session(steps, self._script.match)
        return self._sessions[session]

    def _find_prompt_script(self, turns: Sequence[ConversationTurn]) -> tuple[int, str, str] | None:
        """Return the index of the last user message with a script, the source of the script, and its text or name."""
        for index in range(len(turns) - 1, -1, -1):
            if turns[index].role == "user":
                for source, pattern in (("prompt", _INLINE_SCRIPT), ("named", _NAMED_SCRIPT)):
                    matches = pattern.findall(turns[index].text)
                    if matches:
                        return index, source, matches[-1]
        return None

    def _choose_prompt_step(self, request: ModelRequest, turn_index: int, source: str, text: str) -> ScheduledStep:
        """Choose the step by the number of answers since the prompt.

        This stays correct under retries, resumed sessions and parallel requests.
        """
        if source == "named":
            steps = self._named.get(text)
            if steps is None:
                raise UsageError(f"there is no script named {text!r}")
        else:
            steps = _parse_inline(text)
        step_index = _count_answers(request.parsed.turns[turn_index + 1 :])
        if step_index >= len(steps):
            return ScheduledStep(DEFAULT_STEP, "end")
        key = (request.session, turn_index, step_index, text)
        with self._lock:
            request_count = self._counts.pop(key, 0) + 1
            self._counts[key] = request_count
            while len(self._counts) > _MAX_COUNTS:
                self._counts.popitem(last=False)
        return ScheduledStep(
            steps[step_index], source, step_index + 1, request_count, steps[step_index].find_fault(request_count)
        )


def _new_session(steps: Steps, match: str) -> _SessionPlayback:
    return _SessionPlayback(steps, match, request_counts=[0] * len(steps))


def _count_answers(turns: Sequence[ConversationTurn]) -> int:
    """Return the number of answers. Adjacent assistant turns are parts of one answer."""
    roles = ["", *(turn.role for turn in turns)]
    return sum(role == "assistant" != previous_role for previous_role, role in itertools.pairwise(roles))


def _parse_inline(text: str) -> Steps:
    text = re.sub(r"\s*\n\s*", " ", text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        try:
            data = json.loads(json.loads(f'"{text}"'))  # `opencode run` quotes the prompt
        except (ValueError, TypeError, RecursionError):
            raise UsageError(f"it is not JSON: {error}") from None
    return parse_steps(data)
