"""Defines what mngr needs from an agent kind."""

from __future__ import annotations

from typing import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mngr.base.model import AgentRecord, AgentState, Evidence
    from mngr.host.protocol import Host
    from mngr.kinds.delivery import Delivery


class AgentKind(Protocol):
    """A program that can be an agent. `state` has no side effects; `prepare` writes only into the agent's directory.

    A coding agent usually derives from `mngr.kinds.coding_agent.CodingAgentKind`. For a sandbox, a kind may also have
    `writes` and `addresses`. `writes` lists the names in the agent's directory that the program itself changes, besides
    events.jsonl, status and transcript.jsonl. `addresses` returns HOST:PORT of the models that the program uses.
    """

    name: str
    summary: str
    answer_keys: dict[str, str]  # the keys that `allow` and `deny` a permission; empty if it never asks
    transcript_paths: tuple[str, ...]  # files in the agent's directory (shell globs); empty if it keeps none

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the programs that must be installed on the host."""
        ...

    def check_arguments(self, args: list[str], options: dict[str, Any]) -> None:
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

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """Yield the conversation in mngr's schema: at, role, text, tool, input, output, model, usage."""
        ...
