"""Runs the actions that a person starts on a screen, and returns an outcome for each agent."""

from __future__ import annotations

from collections.abc import Mapping

from mngr.agents.inspect.for_each_agent import make_failed_outcome
from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.base.model import Outcome, Struct
from mngr.base.size_format import format_count
from mngr.overview.agent_cards import describe_state

ALLOW = "allow"
DENY = "deny"
MESSAGE = "message"
PULL = "pull"
STOP = "stop"
START = "start"
DESTROY = "destroy"
UNDESTROY = "undestroy"
LABEL = "label"
ACTIONS = (ALLOW, DENY, MESSAGE, PULL, STOP, START, DESTROY, UNDESTROY, LABEL)


class Action(Struct):
    """An action on agents, which are named by their ids. `text` is the message, or the labels as `K=V K-`."""

    kind: str  # one of ACTIONS
    ids: tuple[str, ...]
    text: str = ""
    seen_states: Mapping[str, str] = {}  # from `describe_state`: the states that the person saw, by id


def run_action(fleet: Fleet, action: Action) -> list[Outcome]:
    """Run an action. A failure is an outcome, also when it concerns all agents."""
    names = list(action.ids)
    try:
        match action.kind:
            case "allow" | "deny":
                return _answer(fleet, action)
            case "message":
                return fleet.message(names, action.text, start=True)
            case "pull":
                return [_pull(fleet, name) for name in names]
            case "stop":
                return fleet.stop(names)
            case "start":
                return fleet.start(names)
            case "destroy":
                return fleet.destroy(names, force=True)
            case "undestroy":
                return fleet.undestroy(names)
            case "label":
                return fleet.label(names, parse_labels(action.text))
    except MngrError as error:
        return [make_failed_outcome(name, error, name) for name in names]
    raise ValueError(f"there is no action {action.kind!r}")


def _answer(fleet: Fleet, action: Action) -> list[Outcome]:
    """Allow or deny what each agent asks. An agent that asks something else than the person saw gets no answer."""
    outcomes: list[Outcome] = []
    names: list[str] = []
    for name in action.ids:
        try:
            view = fleet.get(name)
            if describe_state(view) != action.seen_states.get(name, describe_state(view)):
                problem = f"the state of {view.name} has changed since you saw it, so mngr did not answer"
                raise MngrError(problem, "look at its question, then answer again")
            names.append(name)
        except MngrError as error:
            outcomes.append(make_failed_outcome(name, error, name))
    return outcomes + (fleet.message(names, None, answer=action.kind) if names else [])


def parse_labels(text: str) -> dict[str, str | None]:
    """Return the changes of labels that a person typed: `team=red old-`. Raise MngrError for other text."""
    changes: dict[str, str | None] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if equals and key:
            changes[key] = value
        elif len(word) > 1 and word.endswith("-"):
            changes[word[:-1]] = None
        else:
            raise MngrError(f"{word!r} is not a label", "write K=V to set a label, or K- to remove it")
    if not changes:
        raise MngrError("you gave no label", "write K=V to set a label, or K- to remove it")
    return changes


def _pull(fleet: Fleet, name: str) -> Outcome:
    """Pull the commits and outputs of one agent."""
    try:
        result = fleet.pull(name)
    except MngrError as error:
        return make_failed_outcome(name, error, name)
    note = f"{format_count(result.commits, 'new commit')}, {format_count(result.outputs, 'output')}"
    if result.branch:
        note += f", on {result.branch}"
    return Outcome(id=result.id, name=result.name, notes=(note,))
