"""What an agent kind is."""

from __future__ import annotations

from typing import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.delivery import Delivery
    from mngr.host import Host
    from mngr.model import AgentRecord, Evidence, State


class AgentKind(Protocol):
    """A program that can be an agent. `state` is pure; `prepare` writes only into the agent's own directory.

    For a sandbox it may also have `writes`, names of files in the agent's directory whose contents the program itself
    changes (beside events.jsonl, status and transcript.jsonl), and `addresses`, HOST:PORT of the model it talks to.
    """

    name: str
    summary: str
    answers: dict[
        str, str
    ]  # what to type to `allow` and `deny` a permission; empty when it never asks for one
    programs: tuple[str, ...]  # what must be installed where it runs

    def check(self, args: list[str], options: dict[str, str]) -> None:
        """UsageError or MngrError when an agent cannot be made of this."""
        ...

    def prepare(self, host: Host, record: AgentRecord) -> None:
        """Write what the program needs into the agent's directory; raises MngrError."""
        ...

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        """What to run in the agent's terminal, the first time or again."""
        ...

    def state(self, record: AgentRecord, evidence: Evidence) -> State:
        """What the evidence says."""
        ...

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        """How a message reaches it and what proves that it did; raises MngrError for text it cannot take."""
        ...

    def transcript(self, host: Host, record: AgentRecord) -> str | None:
        """The path of its conversation in our schema, None when it keeps none."""
        ...
