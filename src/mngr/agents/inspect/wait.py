"""Waits until agents reach a state. Events trigger a new look at them, and a look every second finds silent changes."""

from __future__ import annotations

import time

from mngr.agents.inspect.for_each_agent import get_record, make_failed_outcome, resolve_without_repeats
from mngr.agents.inspect.watch import AgentWatcher
from mngr.base.errors import MngrError, TimedOut, UsageError, suggest_closest
from mngr.base.model import STATES, AgentState, Outcome, Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.agents.context import Context
    from mngr.agents.inspect.watch import WatchUpdate
    from mngr.host.protocol import Host

IDLE_STATES = tuple(state for state in STATES if state not in ("STARTING", "RUNNING"))
ENDED_STATES = ("DONE", "FAILED")
_MAX_WAIT_SECONDS = 3600.0


class WaitTarget(Struct):
    """An agent that the caller waits for."""

    host: Host
    id: str
    name: str
    state: AgentState | None  # None when the agent was destroyed


def wait_for_agents(
    ctx: Context,
    names: list[str],
    states: Sequence[str] = IDLE_STATES,
    *,
    any_of: bool = False,
    timeout: float | None = None,
) -> list[Outcome]:
    """Wait until all agents are in one of `states` and return one outcome each.

    With `any_of`, wait for the first agent, and return only the outcomes of agents that reached a state.
    """
    wanted_states = parse_states(states)
    deadline = None if timeout is None else time.monotonic() + timeout
    done: dict[str, Outcome] = {}
    pending: dict[str, WaitTarget] = {}
    pairs = resolve_without_repeats(ctx, names)
    names = [name for name, _ in pairs]
    for name, observed in pairs:
        try:
            if isinstance(observed, MngrError):
                raise observed
            pending[name] = WaitTarget(
                host=observed.host, id=observed.id, name=get_record(observed).name, state=observed.state
            )
        except MngrError as error:
            done[name] = make_failed_outcome(name, error)
    _move_settled(pending, done, wanted_states)
    if not _is_wait_over(pending, done, any_of):
        _watch_until_done(ctx, pending, done, wanted_states, any_of, deadline)
    if any_of and any(outcome.ok for outcome in done.values()):
        return [done[name] for name in names if name in done and done[name].ok]
    if _is_wait_over(pending, done, any_of):
        why: MngrError = MngrError("and the wait ended, because another agent can no longer reach the state")
    else:
        why = TimedOut(
            f"after {timeout:g}s" + ("" if wanted_states == IDLE_STATES else f", not {_join_with_or(wanted_states)}")
        )
    return [done[name] if name in done else _make_unfinished_outcome(pending[name], why) for name in names]


def parse_states(states: Sequence[str]) -> tuple[str, ...]:
    """Parse states written as `S` or `S,S`. Raise UsageError for a state that does not exist."""
    parsed = [word.strip().upper() for text in states for word in text.split(",") if word.strip()]
    for word in parsed:
        if word not in STATES:
            raise UsageError(
                f"there is no state {word!r}",
                suggest_closest(word, list(STATES)) or "use one of: " + ", ".join(STATES),
            )
    if not parsed:
        raise UsageError("--state names no state", "use one of: " + ", ".join(STATES))
    return tuple(dict.fromkeys(parsed))


def _watch_until_done(
    ctx: Context,
    pending: dict[str, WaitTarget],
    done: dict[str, Outcome],
    wanted_states: tuple[str, ...],
    any_of: bool,
    deadline: float | None,
) -> None:
    """Update the states after every event until the wait is over or the deadline has passed."""
    watcher = AgentWatcher(ctx)
    try:
        for target in pending.values():
            watcher.add(target.host, target.id)
        while not _is_wait_over(pending, done, any_of):
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return
            update = watcher.wait(_MAX_WAIT_SECONDS if deadline is None else deadline - now)
            for error in update.errors.values() if update else ():
                raise error
            if update:
                _update_states(pending, update)
                _move_settled(pending, done, wanted_states)
    finally:
        watcher.close()


def _update_states(pending: dict[str, WaitTarget], update: WatchUpdate) -> None:
    """Copy the new states into the pending targets."""
    new_states = {
        view.id: AgentState(state=view.state, reason=view.state_reason, source=view.state_source)
        for view in update.agents
    }
    for name, target in pending.items():
        if target.id in new_states or target.id in update.destroyed:
            pending[name] = target.replace(state=new_states.get(target.id))


def _move_settled(pending: dict[str, WaitTarget], done: dict[str, Outcome], wanted_states: tuple[str, ...]) -> None:
    """Move the targets that have reached a state, or never will, from `pending` to `done`."""
    for name, target in list(pending.items()):
        state = target.state
        if state is None:
            error = MngrError(
                f"{target.name} was destroyed during the wait", f"restore it: mngr undestroy {target.name}"
            )
            done[name] = make_failed_outcome(target.name, error, target.id)
        elif state.state in wanted_states:
            done[name] = Outcome(id=target.id, name=target.name, extra=_make_extra(target))
        elif state.state in ENDED_STATES:
            reason = f" ({state.reason})" if state.reason else ""
            message = f"{target.name} is {state.state}{reason}, so it will not become {_join_with_or(wanted_states)}"
            error = MngrError(message, f"start it again: mngr start {target.name}")
            done[name] = make_failed_outcome(target.name, error, target.id).replace(extra=_make_extra(target))
        else:
            continue
        del pending[name]


def _is_wait_over(pending: dict[str, WaitTarget], done: dict[str, Outcome], any_of: bool) -> bool:
    """True when no target is pending, or when one outcome decides the result."""
    return not pending or any(outcome.ok == any_of for outcome in done.values())


def _make_unfinished_outcome(target: WaitTarget, error: MngrError) -> Outcome:
    """Return the failed outcome of a target that did not reach a state."""
    extra = _make_extra(target)
    message = f"{target.name} is still {extra['state']} {error.message}"
    return make_failed_outcome(
        target.name, type(error)(message, f"see why: mngr explain {target.name}"), target.id
    ).replace(extra=extra)


def _make_extra(target: WaitTarget) -> dict[str, str | None]:
    state = target.state
    return {"state": state.state if state else None, "state_reason": state.reason if state else None}


def _join_with_or(words: tuple[str, ...]) -> str:
    return " or ".join(words)
