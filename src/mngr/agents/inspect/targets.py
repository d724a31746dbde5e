"""Several targets at once: each has its own outcome, and one look at the host finds them all."""

from __future__ import annotations

from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.base import names
from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.base.model import Outcome
from mngr.host import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord

LIVE_STATES = ("STARTING", "RUNNING", "WAITING", "PARKED")


def resolve_names(ctx: Context, wanted: list[str]) -> list[ObservedAgent | MngrError]:
    """What each name stands for, or why it stands for nothing."""
    ids = {}
    places: dict[tuple[str, str], list[str]] = {}
    if ctx.home.exists():
        for name in wanted:
            known = store.find_id(ctx.home, name) if names.is_agent_name(name) else None
            if known or names.is_agent_id(name):
                ids[name] = known or name
                place = store.find_host_of_name(ctx.home, name) or ("local", "local")
                places.setdefault(place, []).append(ids[name])
    looks = map_parallel(
        lambda at: listing.observe_host(ctx, ctx.get_host(*at[0]), list(dict.fromkeys(at[1]))),
        list(places.items()),
        at_once=32,
    )
    seen = {s.id: s for found in looks if not isinstance(found, Exception) for s in found}
    silent = {i: e for e, of in zip(looks, places.values(), strict=True) if isinstance(e, MngrError) for i in of}

    def one(name: str) -> ObservedAgent | MngrError:
        if name in ids and ids[name] in seen:
            return seen[ids[name]]
        if name in ids and ids[name] in silent:
            return silent[ids[name]]
        try:
            return find.observe_agent(ctx, name)
        except MngrError as error:
            return error

    return [one(name) for name in wanted]


def make_failed_outcome(name: str, error: Exception, agent_id: str | None = None) -> Outcome:
    """The outcome of a target that did not work; a bug of ours is raised."""
    if not isinstance(error, MngrError):
        raise error
    return Outcome(id=agent_id, name=name, ok=False, error=error.message, hint=error.hint, exit_code=error.exit_code)


def run_on_targets(
    ctx: Context,
    wanted: list[str],
    work: Callable[[ObservedAgent, AgentRecord], Outcome],
    at_once: int = 8,
    found: list[ObservedAgent | MngrError] | None = None,
) -> list[Outcome]:
    """`work` on every target in parallel, once on one that is named twice; what it raises becomes that target's outcome.

    `found`: what they stand for.
    """

    def one(pair: tuple[str, ObservedAgent | MngrError]) -> Outcome:
        name, seen = pair
        if isinstance(seen, MngrError):
            return make_failed_outcome(name, seen)
        try:
            return work(seen, get_record(seen))
        except MngrError as error:
            return make_failed_outcome(seen.record.name if seen.record else name, error, seen.id)

    found = resolve_names(ctx, wanted) if found is None else found
    pairs = drop_repeated_targets(list(zip(wanted, found, strict=True)))
    answers = map_parallel(one, pairs, at_once)
    return [
        a if not isinstance(a, Exception) else make_failed_outcome(n, a)
        for (n, _), a in zip(pairs, answers, strict=True)
    ]


def resolve_unique(ctx: Context, wanted: list[str]) -> list[tuple[str, ObservedAgent | MngrError]]:
    """Names and what they stand for, or why they stand for nothing; of several names for one agent the first."""
    return drop_repeated_targets(list(zip(wanted, resolve_names(ctx, wanted), strict=True)))


def drop_repeated_targets(
    pairs: list[tuple[str, ObservedAgent | MngrError]],
) -> list[tuple[str, ObservedAgent | MngrError]]:
    """Those with another agent than all before: a name, an id and an address can stand for one."""
    first: dict[str, tuple[str, ObservedAgent | MngrError]] = {}
    for name, seen in pairs:
        first.setdefault(name if isinstance(seen, MngrError) else seen.id, (name, seen))
    return list(first.values())


def get_record(seen: ObservedAgent) -> AgentRecord:
    """The record, or an error that names the damage."""
    if seen.record is None:
        raise MngrError(
            f"the record of {seen.id} is damaged: {seen.damage}",
            f"put it away with: mngr destroy --force {seen.id}",
        )
    return seen.record
