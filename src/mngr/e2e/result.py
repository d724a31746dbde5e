"""What a command left: its exit code and what it wrote, with enough around it to explain a failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mngr.e2e.redact import Redactor


class CommandTimeout(AssertionError):
    """A command took longer than it may; says what it had printed so far."""


@dataclass(frozen=True)
class Scene:
    """Where something was seen: what a failure message shows besides the thing itself."""

    command: str
    tail: Callable[[], str]  # how the transcript ends
    redact: Redactor
    names: dict[str, str]  # what was captured so far, by name
    patterns: dict[str, str]  # named redactions: what stands in [BRACKETS] and the expression it is


class Text(str):
    """Output of a command; knows where it came from."""

    scene: Scene

    def __new__(cls, text: str, scene: Scene) -> Text:
        made = super().__new__(cls, text)
        made.scene = scene
        return made


@dataclass(frozen=True)
class Result:
    """How a command ended and what it wrote; `output` is both streams as they came."""

    command: str
    exit_code: int
    stdout: Text
    stderr: Text
    output: Text
    seconds: float
    scene: Scene = field(repr=False, compare=False)
