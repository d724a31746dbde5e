"""What a command left: its exit code and what it wrote, with enough around it to explain a failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mngr.e2e.redact import Redactor


class CommandTimeout(AssertionError):
    """A command took longer than it may; says what it had printed so far."""


@dataclass(frozen=True)
class OutputOrigin:
    """Where something was seen: what a failure message shows besides the thing itself."""

    command: str
    read_transcript_tail: Callable[[], str]  # how the transcript ends
    redact: Redactor
    captures: dict[str, str]  # what was captured so far, by name
    redactions: dict[str, str]  # named redactions: what stands in [BRACKETS] and the expression it is


class CommandOutput(str):
    """Output of a command; knows where it came from."""

    origin: OutputOrigin

    def __new__(cls, text: str, scene: OutputOrigin) -> CommandOutput:
        made = super().__new__(cls, text)
        made.origin = scene
        return made


@dataclass(frozen=True)
class E2eResult:
    """How a command ended and what it wrote; `output` is both streams as they came."""

    command: str
    exit_code: int
    stdout: CommandOutput
    stderr: CommandOutput
    output: CommandOutput
    seconds: float
    origin: OutputOrigin = field(repr=False, compare=False)
