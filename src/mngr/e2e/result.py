"""The result of a command: its exit code and output, with the context that explains a failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mngr.e2e.redact_secrets import Redactor


class CommandTimeout(AssertionError):
    """A command exceeded its timeout. The message shows its output so far."""


@dataclass(frozen=True)
class OutputOrigin:
    """The context of an output, which a failure message shows."""

    command: str
    read_transcript_tail: Callable[[], str]  # returns the end of the transcript
    redact: Redactor
    captures: dict[str, str]  # values captured so far, by name
    redactions: dict[str, str]  # the name in [BRACKETS] and its regular expression


class CommandOutput(str):
    """Output of a command that knows its origin."""

    origin: OutputOrigin

    def __new__(cls, text: str, origin: OutputOrigin) -> CommandOutput:
        output = super().__new__(cls, text)
        output.origin = origin
        return output


@dataclass(frozen=True)
class E2eResult:
    """The exit code and output of a command; `output` holds both streams in the order of arrival."""

    command: str
    exit_code: int
    stdout: CommandOutput
    stderr: CommandOutput
    output: CommandOutput
    seconds: float
    origin: OutputOrigin = field(repr=False, compare=False)
