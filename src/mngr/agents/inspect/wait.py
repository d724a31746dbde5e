"""`wait`: until agents reach a state. Driven by their events; a look once a second catches what left none."""

from __future__ import annotations

import time

from mngr.agents.inspect.targets import get_record, make_failed_outcome, resolve_unique
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
_MAX_WAIT_SECONDS = 3600.0  # seconds


class WaitTarget(Struct):
    """An agent that is waited for."""

    host: Host
    id: str
    name: str
    state: AgentState | None  # None when it was destroyed


def wait_for_agents(
    ctx: Context,
    names: list[str],
    states: Sequence[str] = IDLE_STATES,
    *,
    any_of: bool = False,
    timeout: float | None = None,
) -> list[Outcome]:
    """Wait until all agents, or any of them, are in one of `states`; one outcome each, of any those that got there."""
    wanted = parse_states(states)
    deadline = None if timeout is None else time.monotonic() + timeout
    done: dict[str, Outcome] = {}
    left: dict[str, WaitTarget] = {}
    pairs = resolve_unique(ctx, names)
    names = [name for name, _ in pairs]
    for name, seen in pairs:
        try:
            if isinstance(seen, MngrError):
                raise seen
            left[name] = WaitTarget(host=seen.host, id=seen.id, name=get_record(seen).name, state=seen.state)
        except MngrError as error:
            done[name] = make_failed_outcome(name, error)
    _move_settled(left, done, wanted)
    if not _is_wait_over(left, done, any_of):
        _watch_until_done(ctx, left, done, wanted, any_of, deadline)
    if any_of and any(outcome.ok for outcome in done.values()):
        return [done[name] for name in names if name in done and done[name].ok]
    if _is_wait_over(left, done, any_of):
        why: MngrError = MngrError("and another will never get there")
    else:
        why = TimedOut(f"after {timeout:g}s" + ("" if wanted == IDLE_STATES else f", not {_join_with_or(wanted)}"))
    return [done[name] if name in done else _make_unfinished_outcome(left[name], why) for name in names]


def parse_states(states: Sequence[str]) -> tuple[str, ...]:
    """States as `S` or `S,S`; UsageError for one that does not exist."""
    found = [word.strip().upper() for text in states for word in text.split(",") if word.strip()]
    for word in found:
        if word not in STATES:
            raise UsageError(
                f"there is no state {word!r}",
                suggest_closest(word, list(STATES)) or "states: " + ", ".join(STATES),
            )
    if not found:
        raise UsageError("no state is named", "states: " + ", ".join(STATES))
    return tuple(dict.fromkeys(found))


def _watch_until_done(
    ctx: Context,
    left: dict[str, WaitTarget],
    done: dict[str, Outcome],
    wanted: tuple[str, ...],
    any_of: bool,
    deadline: float | None,
) -> None:
    """Look again at every event until it is over or too late."""
    watch = AgentWatcher(ctx)
    try:
        for target in left.values():
            watch.add(target.host, target.id)
        while not _is_wait_over(left, done, any_of):
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return
            glance = watch.wait(_MAX_WAIT_SECONDS if deadline is None else deadline - now)
            for error in glance.errors.values() if glance else ():
                raise error
            if glance:
                _update_states(left, glance)
                _move_settled(left, done, wanted)
    finally:
        watch.close()


def _update_states(left: dict[str, WaitTarget], glance: WatchUpdate) -> None:
    seen = {v.id: AgentState(state=v.state, reason=v.state_reason, source=v.state_source) for v in glance.agents}
    for name, target in left.items():
        if target.id in seen or target.id in glance.destroyed:
            left[name] = target.replace(state=seen.get(target.id))


def _move_settled(left: dict[str, WaitTarget], done: dict[str, Outcome], wanted: tuple[str, ...]) -> None:
    """Move the targets that are settled from `left` to `done`."""
    for name, target in list(left.items()):
        state = target.state
        if state is None:
            error = MngrError(f"{target.name} was destroyed while it was waited for", "see: mngr list")
            done[name] = make_failed_outcome(target.name, error, target.id)
        elif state.state in wanted:
            done[name] = Outcome(id=target.id, name=target.name, extra=_make_extra(target))
        elif state.state in ENDED_STATES:
            reason = f" ({state.reason})" if state.reason else ""
            said = f"{target.name} is {state.state}{reason} and will not be {_join_with_or(wanted)}"
            error = MngrError(said, f"bring it back: mngr start {target.name}")
            done[name] = make_failed_outcome(target.name, error, target.id).replace(extra=_make_extra(target))
        else:
            continue
        del left[name]


def _is_wait_over(left: dict[str, WaitTarget], done: dict[str, Outcome], any_of: bool) -> bool:
    return not left or any(outcome.ok == any_of for outcome in done.values())


def _make_unfinished_outcome(target: WaitTarget, why: MngrError) -> Outcome:
    extra = _make_extra(target)
    message = f"{target.name} is still {extra['state']} {why.message}"
    return make_failed_outcome(
        target.name, type(why)(message, f"see why: mngr explain {target.name}"), target.id
    ).replace(extra=extra)


def _make_extra(target: WaitTarget) -> dict[str, str | None]:
    state = target.state
    return {"state": state.state if state else None, "state_reason": state.reason if state else None}


def _join_with_or(words: tuple[str, ...]) -> str:
    return " or ".join(words)
