"""Agent kind `echo`: prints its text, then repeats every line that it receives."""

from __future__ import annotations

import os

from mngr.base.errors import UsageError
from mngr.kinds.agent_state import derive_state
from mngr.kinds.delivery_plan import Delivery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mngr.base.model import AgentRecord, AgentState, Evidence
    from mngr.host.protocol import Host
    from mngr.kinds.protocol import KindOptions
    from mngr.kinds.transcript_entry import TranscriptEntry

_PROGRAM = """\
printf '%s\\n' "$*"
while IFS= read -r line; do printf 'echo: %s\\n' "$line"; done
"""


class EchoKind:
    """An agent kind that needs only sh."""

    name = "echo"
    summary = "says back what it is told; its first words follow --"
    programs: tuple[str, ...] = ()
    transcript_paths: tuple[str, ...] = ()  # it has no transcript
    answer_keys: dict[str, str] = {}

    def check_arguments(self, args: list[str], options: KindOptions) -> None:
        if not args:
            raise UsageError("an echo needs its first words", "for example: mngr create foo echo -- good morning")

    def prepare(self, host: Host, record: AgentRecord) -> None:
        host.write(self._path(host, record), _PROGRAM.encode())

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        words = ["good morning again"] if resume else record.command
        return ["sh", self._path(host, record), *words]

    def state(self, record: AgentRecord, evidence: Evidence) -> AgentState:
        return derive_state(record, evidence)

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        return Delivery(text=text)

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        return iter(())

    def _path(self, host: Host, record: AgentRecord) -> str:
        return os.path.join(host.home.agent_dir(record.id), "echo.sh")
