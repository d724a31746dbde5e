"""Kind `command`: runs any program unchanged."""

from __future__ import annotations

from mngr.base.errors import UsageError
from mngr.kinds.agent_state import derive_state
from mngr.kinds.coding_agent import reject_coding_options
from mngr.kinds.delivery_plan import Delivery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mngr.base.model import AgentRecord, AgentState, Evidence
    from mngr.host.protocol import Host
    from mngr.kinds.protocol import KindOptions
    from mngr.kinds.transcript_entry import TranscriptEntry


class CommandKind:
    """Runs the words after `--`. A single word that contains spaces runs as a shell command line."""

    name = "command"
    summary = "any program: the command after --"
    answer_keys: dict[str, str] = {}
    programs: tuple[str, ...] = ()
    transcript_paths: tuple[str, ...] = ()

    def check_arguments(self, args: list[str], options: KindOptions) -> None:
        reject_coding_options(self.name, options)
        if not args or not args[0].strip():
            raise UsageError(
                "you gave no command to run", "write it after --, for example: mngr create foo -- make test"
            )

    def prepare(self, host: Host, record: AgentRecord) -> None:
        pass

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        if len(record.command) == 1 and any(c.isspace() for c in record.command[0]):
            return ["sh", "-c", record.command[0]]
        return record.command

    def state(self, record: AgentRecord, evidence: Evidence) -> AgentState:
        return derive_state(record, evidence)

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        return Delivery(text=text)

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        return iter(())


KIND = CommandKind()
