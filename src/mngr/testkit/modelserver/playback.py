"""Which step answers a request: where each session stands, and how often each step was asked for."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mngr.base.errors import UsageError
from mngr.testkit.modelserver.request import ConversationTurn, ModelRequest
from mngr.testkit.modelserver.script import ModelScript, ScriptedStep, Steps, parse_match, parse_steps

DEFAULT_STEP = ScriptedStep(text="ok")
_INLINE_SCRIPT = re.compile(r"<fake>(.*?)</fake>", re.S)
_NAMED_SCRIPT = re.compile(r"fake-script:([A-Za-z0-9_.-]+)")
_MAX_COUNTS = 10_000


@dataclass(frozen=True)
class ScheduledStep:
    """The step for one request, where it comes from, and what goes wrong this time."""

    step: ScriptedStep
    source: str  # prompt | named | script | end | aside
    number: int | None = None  # of the step, from 1
    request_count: int = 1
    fault: str | None = None


@dataclass
class _SessionPlayback:
    """A session's script and how far it is."""

    steps: Steps
    match: str
    next_step: int = 0
    request_counts: list[int] = field(default_factory=list)


class Playback:
    """All sessions; safe to use from many threads."""

    def __init__(self, script: ModelScript) -> None:
        self._script = script
        self._named = dict(script.named)
        self._plays: dict[str, _SessionPlayback] = {}
        self._counts: OrderedDict[tuple[Any, ...], int] = OrderedDict()
        self._lock = threading.Lock()

    def set_script(self, session: str, steps: Any, match: Any = "tools") -> None:
        """Give a session another script, from its first step."""
        play = _new_session(parse_steps(steps), parse_match(match))
        with self._lock:
            self._plays[session] = play

    def set_named_script(self, name: str, steps: Any) -> None:
        """Give the steps that `fake-script:NAME` in a prompt stands for."""
        parsed = parse_steps(steps)
        with self._lock:
            self._named[name] = parsed

    def reset(self, session: str | None = None) -> None:
        """A session, or everything, from the beginning."""
        with self._lock:
            if session is None:
                self._plays.clear()
                self._counts.clear()
                self._named = dict(self._script.named)
            else:
                self._plays.pop(session, None)

    def count_requests(self, session: str) -> list[int]:
        """How often each step of a session's script was asked for."""
        with self._lock:
            return list(self._get_session(session).request_counts)

    def choose_step(self, request: ModelRequest) -> ScheduledStep:
        """The step that answers a request; UsageError when the prompt holds a script that cannot be played."""
        if request.is_side_request:
            return ScheduledStep(ScriptedStep(text=request.side_answer), "aside")
        found = self._find_prompt_script(request.parsed.turns)
        if found:
            return self._choose_prompt_step(request, *found)
        with self._lock:
            play = self._get_session(request.session)
            if not request.parsed.tools and play.match != "all":
                return ScheduledStep(ScriptedStep(text=request.side_answer), "aside")
            if play.next_step >= len(play.steps):
                return ScheduledStep(DEFAULT_STEP, "end")
            at = play.next_step
            play.request_counts[at] += 1
            fault = play.steps[at].find_fault(play.request_counts[at])
            play.next_step += fault is None  # what went wrong by script does not use the step up
            return ScheduledStep(play.steps[at], "script", at + 1, play.request_counts[at], fault)

    def _get_session(self, session: str) -> _SessionPlayback:
        if session not in self._plays:
            steps = self._script.sessions.get(session, self._script.steps)
            self._plays[session] = _new_session(steps, self._script.match)
        return self._plays[session]

    def _find_prompt_script(self, turns: Sequence[ConversationTurn]) -> tuple[int, str, str] | None:
        """The last user message with a script in it: its place, what kind of script, and which."""
        for place in range(len(turns) - 1, -1, -1):
            if turns[place].role == "user":
                for source, pattern in (("prompt", _INLINE_SCRIPT), ("named", _NAMED_SCRIPT)):
                    found = pattern.findall(turns[place].text)
                    if found:
                        return place, source, found[-1]
        return None

    def _choose_prompt_step(self, request: ModelRequest, place: int, source: str, text: str) -> ScheduledStep:
        """A step by the number of answers since: right under retries, resumes and side by side."""
        if source == "named":
            steps = self._named.get(text)
            if steps is None:
                raise UsageError(f"there is no script named {text!r}")
        else:
            steps = _parse_inline(text)
        at = _count_answers(request.parsed.turns[place + 1 :])
        if at >= len(steps):
            return ScheduledStep(DEFAULT_STEP, "end")
        key = (request.session, place, at, text)
        with self._lock:
            asked = self._counts.pop(key, 0) + 1
            self._counts[key] = asked
            while len(self._counts) > _MAX_COUNTS:
                self._counts.popitem(last=False)
        return ScheduledStep(steps[at], source, at + 1, asked, steps[at].find_fault(asked))


def _new_session(steps: Steps, match: str) -> _SessionPlayback:
    return _SessionPlayback(steps, match, request_counts=[0] * len(steps))


def _count_answers(turns: Sequence[ConversationTurn]) -> int:
    """How many answers there are; one may have several parts, next to each other."""
    roles = ["", *(turn.role for turn in turns)]
    return sum(now == "assistant" != before for before, now in itertools.pairwise(roles))


def _parse_inline(text: str) -> Steps:
    text = re.sub(r"\s*\n\s*", " ", text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        try:
            data = json.loads(json.loads(f'"{text}"'))  # `opencode run` quotes what it is given
        except (ValueError, TypeError, RecursionError):
            raise UsageError(f"not JSON: {error}") from None
    return parse_steps(data)
