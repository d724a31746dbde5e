"""What an agent kind is."""

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
    """A program that can be an agent. `state` is pure; `prepare` writes only into the agent's own directory.

    A coding agent is best made of `mngr.kinds.coding_agent.CodingAgentKind`. For a sandbox a kind may also have `writes`, names in
    the agent's directory that the program itself changes (beside events.jsonl, status and transcript.jsonl), and
    `addresses`, HOST:PORT of the model it talks to.
    """

    name: str
    summary: str
    answer_keys: dict[str, str]  # what to type to `allow` and `deny` a permission; empty when it never asks for one
    transcript_paths: tuple[str, ...]  # files in the agent's directory, with * as in a shell; none when it keeps none

    @property
    def programs(self) -> tuple[str, ...]:
        """What must be installed where it runs."""
        ...

    def check_arguments(self, args: list[str], options: dict[str, Any]) -> None:
        """UsageError or MngrError when an agent cannot be made of this; options: yolo."""
        ...

    def prepare(self, host: Host, record: AgentRecord) -> None:
        """Write what the program needs into the agent's directory; raises MngrError."""
        ...

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        """What to run in the agent's terminal, the first time or again."""
        ...

    def state(self, record: AgentRecord, evidence: Evidence) -> AgentState:
        """What the evidence says."""
        ...

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        """How a message reaches it and what proves that it did; raises MngrError for text it cannot take."""
        ...

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """The rows of its conversation in our schema: at, role, text, tool, input, output, model, usage."""
        ...
