"""Kind `player`: a scripted agent. It reads messages from its terminal and plays the steps of a scenario.

A scenario is JSON: a list of steps, or an object with `steps` and

    "start": "now"       play before the first message comes (otherwise it waits for one)
    "lose_enters": N     ignore the first N presses of Enter, as some programs do

A step is an object with one key, or the bare word "wait" or "hang":

    {"reply": TEXT}                            say something
    {"sleep": SECONDS}                         be busy; messages are taken in meanwhile
    {"write": {"path": P, "content": TEXT}}    write a file; "append" instead of "content" adds to it
    {"commit": MESSAGE}                        git add -A && git commit, in the work dir
    {"ask": TEXT}                              ask a question and wait for the next message
    {"permission": TEXT}                       the same, as a question for permission
    {"exit": N}                                end with this exit code
    "wait"                                     end the turn and wait for the next message
    "hang"                                     stay busy and read nothing any more

A path is taken from the work dir, and variables such as $MNGR_OUTPUT_DIR are filled in. Every message starts a
turn; a turn plays steps up to `wait`, `ask`, `permission` or the end. When no step is left, the answer to a message
is `ok:` and its first line. Where it stands is kept, so that a new start goes on there and repeats nothing.
"""

from __future__ import annotations

import os

from mngr import onhost
from mngr.agents.delivery import Delivery
from mngr.agents.evidence import state_of
from mngr.agents.program import own_rows, refuse
from mngr.errors import NotFound, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mngr.host import Host
    from mngr.model import AgentRecord, Evidence, State

_TEXTS = ("reply", "commit", "ask", "permission")
_NUMBERS = ("sleep", "exit")
_WORDS = ("wait", "hang")
_WRITES = ({"path", "content"}, {"path", "append"})
_EXAMPLE = '[{"reply": "hello"}, {"ask": "shall I go on?"}, {"exit": 0}]'
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

        directory = host.home.agent(record.id)
        host.write(os.path.join(directory, "player.py"), onhost.program("player.py").encode())
        scenario = os.path.join(directory, "scenario.json")
        try:
            host.read(scenario)  # an agent made from another one goes on with that one's
        except NotFound:
            host.write(scenario, json.dumps(_read(record.command)).encode())

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
        from mngr.onhost import player

        shown = player.shown(text).rstrip()[-_TAIL:]
        return Delivery(text=text, ready="status", proof="transcript", mark=player.digest(text), shown=shown)

    def parse(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        return own_rows(lines)


def parse_scenario(text: str) -> dict[str, Any]:
    """The scenario in `text`, with every step as [verb, value]; ValueError says what is wrong with it."""
    import json

    data = json.loads(text)
    if isinstance(data, list):
        data = {"steps": data}
    if not isinstance(data, dict) or not isinstance(data.get("steps", []), list):
        raise ValueError("a scenario is a list of steps, or an object with steps")
    unknown = sorted(set(data) - {"steps", "start", "lose_enters"})
    if unknown:
        raise ValueError(f"a scenario has no {unknown[0]!r}; it has steps, start and lose_enters")
    start, lose = data.get("start", "message"), data.get("lose_enters", 0)
    if start not in ("now", "message"):
        raise ValueError(f"start is now or message, not {start!r}")
    if not _is_number(lose):
        raise ValueError(f"lose_enters is a number, not {lose!r}")
    steps = [_parse_step(number, step) for number, step in enumerate(data.get("steps", []), 1)]
    return {"steps": steps, "start": start, "lose_enters": lose}


def _parse_step(number: int, step: Any) -> list[Any]:
    if step in _WORDS:
        return [step, None]
    if not isinstance(step, dict) or len(step) != 1:
        raise ValueError(f'step {number} is not an object with one key, "wait" or "hang": {step!r}')
    verb, value = next(iter(step.items()))
    wanted = None
    if verb in _TEXTS:
        wanted = None if isinstance(value, str) else "a text"
    elif verb in _NUMBERS:
        wanted = None if _is_number(value) else "a number that is not negative"
        if verb == "exit" and (wanted or value not in range(256)):
            wanted = "a whole number up to 255"
    elif verb == "write":
        fits = (
            isinstance(value, dict)
            and set(value) in _WRITES
            and all(isinstance(v, str) for v in value.values())
        )
        wanted = None if fits else "a path, and content or append"
    else:
        raise ValueError(
            f"step {number}: there is no {verb!r}; there are {', '.join((*_TEXTS, *_NUMBERS, 'write', *_WORDS))}"
        )
    if wanted:
        raise ValueError(f"step {number}: {verb} wants {wanted}, not {value!r}")
    return [verb, value]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9


def _read(args: list[str]) -> dict[str, Any]:
    """The scenario that the user named; UsageError when there is none to be read."""
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
