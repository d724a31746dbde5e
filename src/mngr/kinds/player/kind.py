"""Kind `player`: a scripted agent. It reads messages from its terminal and plays the steps of a scenario."""

from __future__ import annotations

import os

from mngr.base.errors import NotFound, UsageError
from mngr.host import scripts
from mngr.kinds.agent_state import state_of
from mngr.kinds.coding_agent import own_rows, refuse
from mngr.kinds.delivery import Delivery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mngr.base.model import AgentRecord, Evidence, State
    from mngr.host.protocol import Host

_EXAMPLE = '[{"reply": "hello"}, {"ask": "shall I go on?"}, {"exit": 0}]'
_MORE = ("acts.py", "faults.py")  # for steps that are not played every day
_TAIL = 20  # characters: enough to know the end of a text by, and on one line of any screen


class PlayerKind:
    """Plays the scenario that follows `--`: a file, or the JSON itself. Without one it answers every message."""

    name = "player"
    summary = "a scripted agent: what follows -- is a scenario, a JSON file or JSON"
    answers = {"allow": "yes", "deny": "no"}
    programs: tuple[str, ...] = ("python3",)
    conversation = ("transcript.jsonl",)
    writes = ("player.json",)

    def check(self, args: list[str], options: dict[str, Any]) -> None:
        refuse(self.name, options)
        _read(args)

    def prepare(self, host: Host, record: AgentRecord) -> None:
        import json

        from mngr.kinds.player.scenario import needs_more

        directory = host.home.agent(record.id)
        place = os.path.join(directory, "scenario.json")
        try:
            text = host.read(place)  # an agent made from another one goes on with that one's
        except NotFound:
            text = json.dumps(_read(record.command)).encode()
            host.write(place, text)
        for name in ("player.py", *(_MORE if needs_more(text) else ())):
            host.write(os.path.join(directory, name), scripts.program_beside(__file__, name).encode())

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        return ["python3", os.path.join(host.home.agent(record.id), "player.py")]

    def state(self, record: AgentRecord, evidence: Evidence) -> State:
        state = state_of(record, evidence)
        if (
            state.source == "process" and state.state == "RUNNING"
        ):  # it has not said yet that it takes messages
            return state.replace(state="STARTING")
        return state

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        from mngr.kinds.player import player

        shown = player.shown(text).rstrip()[-_TAIL:]
        return Delivery(text=text, ready="status", proof="transcript", mark=player.digest(text), shown=shown)

    def parse(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        return own_rows(lines)


def _read(args: list[str]) -> dict[str, Any]:
    """The scenario that the user named; UsageError when there is none to be read."""
    from mngr.kinds.player.scenario import parse_scenario

    if len(args) > 1:
        raise UsageError(
            f"the player takes one scenario, not {len(args)}", "give a JSON file, or JSON in one word"
        )
    text = args[0] if args else "[]"
    where = "the scenario"
    if text.strip()[:1] not in ("[", "{"):
        where = text
        try:
            with open(os.path.expanduser(text), encoding="utf-8") as file:
                text = file.read()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"cannot read the scenario {where}: {reason}", "give a JSON file, or JSON in one word"
            ) from None
    try:
        return parse_scenario(text)
    except ValueError as error:
        raise UsageError(f"{where} cannot be played: {error}", "for example: " + _EXAMPLE) from None


KIND = PlayerKind()
