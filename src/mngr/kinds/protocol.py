"""Defines what mngr needs from an agent kind, and the optional capabilities of a kind, one protocol for each."""

from __future__ import annotations

from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Protocol, runtime_checkable

    from mngr.base.model import AgentRecord, AgentState, Evidence
    from mngr.host.protocol import Host
    from mngr.kinds.delivery_plan import Delivery
    from mngr.kinds.transcript_entry import TranscriptEntry
else:
    from mngr.base.python_process.light_protocol import Protocol, runtime_checkable  # typing would cost 10 ms


class KindOptions(Struct):
    """The options of `mngr create` that only some kinds support."""

    yolo: bool = False  # work without permission prompts
    resume: str | None = None  # the conversation, begun outside mngr, that the agent continues


class AgentKind(Protocol):
    """A program that can be an agent. `state` has no side effects; `prepare` writes only into the agent's directory.

    A coding agent usually derives from `mngr.kinds.coding_agent.CodingAgentKind`, which has all optional capabilities.
    Any other kind has a capability when it has the member of the capability's protocol below.
    """

    name: str
    summary: str
    answer_keys: dict[str, str]  # the keys that `allow` and `deny` a permission; empty if it never asks
    transcript_paths: tuple[str, ...]  # files in the agent's directory (shell globs); empty if it keeps none

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the programs that must be installed on the host."""
        ...

    def check_arguments(self, args: list[str], options: KindOptions) -> None:
        """Raise UsageError or MngrError when these arguments and options cannot make an agent."""
        ...

    def prepare(self, host: Host, record: AgentRecord) -> None:
        """Write the files that the program needs into the agent's directory; may raise MngrError."""
        ...

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        """Return the command for the agent's terminal; `resume` is False for the first start."""
        ...

    def state(self, record: AgentRecord, evidence: Evidence) -> AgentState:
        """Return the state that the evidence shows."""
        ...

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        """Return how to deliver a message and how to prove its arrival; raise MngrError for an unusable text."""
        ...

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        """Yield the entries of the conversation in the order of time."""
        ...


@runtime_checkable
class FileWritingKind(Protocol):
    """An optional capability of a kind: its program changes its own files in the agent's directory, also in a sandbox."""

    # Names in the agent's directory, besides events.jsonl, status and transcript.jsonl. A directory ends with a slash.
    written_names: tuple[str, ...]


@runtime_checkable
class ModelKind(Protocol):
    """An optional capability of a kind: its program uses models, and a sandbox lets it reach them."""

    def list_model_addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        """Return HOST:PORT of the models that the program uses with these environment variables."""
        ...


@runtime_checkable
class LoginKind(Protocol):
    """An optional capability of a kind: its agents can use the user's login."""

    def list_login_files(self) -> dict[str, str]:
        """Return the user's login files, each with its place in the agent's directory."""
        ...


@runtime_checkable
class ScreenKind(Protocol):
    """An optional capability of a kind: it derives some states from the agent's screen."""

    def is_screen_needed(self, evidence: Evidence, state: AgentState) -> bool:
        """True when the screen could refine `state`. mngr asks this for every agent, so it is rarely True."""
        ...


@runtime_checkable
class InstallableKind(Protocol):
    """An optional capability of a kind: tell the user how to install its program."""

    install: str  # the command that installs the program; empty if there is none
