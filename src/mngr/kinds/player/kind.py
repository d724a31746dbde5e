"""Kind `player`: the scripted agent. It reads messages from its terminal and plays the steps of a scenario."""

from __future__ import annotations

import os

from mngr.base.errors import NotFound, UsageError, describe_file_error
from mngr.host import scripts
from mngr.kinds.agent_state import derive_state
from mngr.kinds.coding_agent import reject_coding_options
from mngr.kinds.delivery_plan import Delivery
from mngr.kinds.transcript_entry import parse_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mngr.base.model import AgentRecord, AgentState, Evidence
    from mngr.host.protocol import Host
    from mngr.kinds.protocol import KindOptions
    from mngr.kinds.transcript_entry import TranscriptEntry

_EXAMPLE = '[{"reply": "hello"}, {"ask": "continue?"}, {"exit": 0}]'
_SCENARIO_HINT = f"name a JSON file, or write JSON: mngr create NAME player -- '{_EXAMPLE}'"
_EXTRA_FILES = ("work_and_fault_steps.py", "sabotage.py")  # sent only for scenarios with steps beyond BASIC_VERBS
_TAIL_LENGTH = 20  # characters: enough to recognize the end of a text, and short enough for one line of any screen


class PlayerKind:
    """Plays the scenario after `--`, a file or JSON. Without a scenario it answers every message."""

    name = "player"
    summary = "a scripted agent, which plays the scenario after --, a JSON file or JSON text"
    answer_keys = {"allow": "yes", "deny": "no"}
    programs: tuple[str, ...] = ("python3",)
    transcript_paths = ("transcript.jsonl",)
    written_names = ("player.json",)

    def check_arguments(self, args: list[str], options: KindOptions) -> None:
        reject_coding_options(self.name, options)
        _load_scenario(args)

    def prepare(self, host: Host, record: AgentRecord) -> None:
        import json

        from mngr.kinds.player.scenario import has_extra_steps

        directory = host.home.agent_dir(record.id)
        scenario_path = os.path.join(directory, "scenario.json")
        try:
            text = host.read(scenario_path)  # a clone keeps the scenario of its source
        except NotFound:
            text = json.dumps(_load_scenario(record.command)).encode()
            host.write(scenario_path, text)
        for name in ("player.py", *(_EXTRA_FILES if has_extra_steps(text) else ())):
            host.write(os.path.join(directory, name), scripts.read_program_beside(__file__, name).encode())

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        return ["python3", os.path.join(host.home.agent_dir(record.id), "player.py")]

    def state(self, record: AgentRecord, evidence: Evidence) -> AgentState:
        state = derive_state(record, evidence)
        if state.source == "process" and state.state == "RUNNING":  # it has not reported yet that it accepts messages
            return state.replace(state="STARTING")
        return state

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        from mngr.kinds.player import player

        pending_text = player.format_paste(text).rstrip()[-_TAIL_LENGTH:]
        return Delivery(
            text=text,
            ready="status",
            proof="transcript",
            arrival_marker=player.hash_message(text),
            pending_text=pending_text,
        )

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        return parse_entries(lines)


def _load_scenario(args: list[str]) -> dict[str, object]:
    """Return the scenario that the user named; raise UsageError when it cannot be read."""
    from mngr.kinds.player.scenario import parse_scenario

    if len(args) > 1:
        raise UsageError(f"the agent kind player takes one scenario, but you gave {len(args)}", _SCENARIO_HINT)
    text = args[0] if args else "[]"
    source = "the scenario"
    if text.strip()[:1] not in ("[", "{"):
        source = f"the scenario {text}"
        try:
            with open(os.path.expanduser(text), encoding="utf-8") as file:
                text = file.read()
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {source}: {describe_file_error(error)}", _SCENARIO_HINT) from None
    try:
        return parse_scenario(text)
    except ValueError as error:
        raise UsageError(f"{source} is not valid: {error}", _SCENARIO_HINT) from None


KIND = PlayerKind()
