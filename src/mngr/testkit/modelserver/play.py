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
from mngr.testkit.modelserver.request import Request, Turn
from mngr.testkit.modelserver.script import Script, Step, Steps, parse_match, parse_steps

OK = Step(text="ok")
_INLINE = re.compile(r"<fake>(.*?)</fake>", re.S)
_NAMED = re.compile(r"fake-script:([A-Za-z0-9_.-]+)")
_MOST_COUNTS = 10_000


@dataclass(frozen=True)
class Part:
    """The step for one request, where it comes from, and what goes wrong this time."""

    step: Step
    source: str  # prompt | named | script | end | aside
    number: int | None = None  # of the step, from 1
    asked: int = 1
    fault: str | None = None


@dataclass
class _Play:
    """A session's script and how far it is."""

    steps: Steps
    match: str
    at: int = 0
    asked: list[int] = field(default_factory=list)


class Plays:
    """All sessions; safe to use from many threads."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._named = dict(script.named)
        self._plays: dict[str, _Play] = {}
        self._counts: OrderedDict[tuple[Any, ...], int] = OrderedDict()
        self._lock = threading.Lock()

    def set(self, session: str, steps: Any, match: Any = "tools") -> None:
        """Give a session another script, from its first step."""
        play = _new_play(parse_steps(steps), parse_match(match))
        with self._lock:
            self._plays[session] = play

    def set_named(self, name: str, steps: Any) -> None:
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

    def asked(self, session: str) -> list[int]:
        """How often each step of a session's script was asked for."""
        with self._lock:
            return list(self._play(session).asked)

    def choose(self, request: Request) -> Part:
        """The step that answers a request; UsageError when the prompt holds a script that cannot be played."""
        if request.is_aside:
            return Part(Step(text=request.aside_text), "aside")
        found = self._in_prompt(request.said.turns)
        if found:
            return self._from_prompt(request, *found)
        with self._lock:
            play = self._play(request.session)
            if not request.said.tools and play.match != "all":
                return Part(Step(text=request.aside_text), "aside")
            if play.at >= len(play.steps):
                return Part(OK, "end")
            at = play.at
            play.asked[at] += 1
            fault = play.steps[at].fault(play.asked[at])
            play.at += fault is None  # what went wrong by script does not use the step up
            return Part(play.steps[at], "script", at + 1, play.asked[at], fault)

    def _play(self, session: str) -> _Play:
        if session not in self._plays:
            steps = self._script.sessions.get(session, self._script.steps)
            self._plays[session] = _new_play(steps, self._script.match)
        return self._plays[session]

    def _in_prompt(self, turns: Sequence[Turn]) -> tuple[int, str, str] | None:
        """The last user message with a script in it: its place, what kind of script, and which."""
        for place in range(len(turns) - 1, -1, -1):
            if turns[place].role == "user":
                for source, pattern in (("prompt", _INLINE), ("named", _NAMED)):
                    found = pattern.findall(turns[place].text)
                    if found:
                        return place, source, found[-1]
        return None

    def _from_prompt(self, request: Request, place: int, source: str, text: str) -> Part:
        """A step by the number of answers since: right under retries, resumes and side by side."""
        if source == "named":
            steps = self._named.get(text)
            if steps is None:
                raise UsageError(f"there is no script named {text!r}")
        else:
            steps = _parse_inline(text)
        at = _answers(request.said.turns[place + 1 :])
        if at >= len(steps):
            return Part(OK, "end")
        key = (request.session, place, at, text)
        with self._lock:
            asked = self._counts.pop(key, 0) + 1
            self._counts[key] = asked
            while len(self._counts) > _MOST_COUNTS:
                self._counts.popitem(last=False)
        return Part(steps[at], source, at + 1, asked, steps[at].fault(asked))


def _new_play(steps: Steps, match: str) -> _Play:
    return _Play(steps, match, asked=[0] * len(steps))


def _answers(turns: Sequence[Turn]) -> int:
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
