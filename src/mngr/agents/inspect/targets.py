"""Several targets at once: each has its own outcome, and one look at the host finds them all."""

from __future__ import annotations

from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.base import names
from mngr.base.errors import MngrError
from mngr.base.fanout import fanout
from mngr.base.model import Outcome
from mngr.host import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.agents.context import Context
    from mngr.agents.inspect.list import Seen
    from mngr.base.model import AgentRecord

LIVE = ("STARTING", "RUNNING", "WAITING", "PARKED")


def resolve(ctx: Context, wanted: list[str]) -> list[Seen | MngrError]:
    """What each name stands for, or why it stands for nothing."""
    ids = {}
    places: dict[tuple[str, str], list[str]] = {}
    if ctx.home.exists():
        for name in wanted:
            known = store.find_id(ctx.home, name) if names.is_name(name) else None
            if known or names.is_id(name):
                ids[name] = known or name
                place = store.find_place(ctx.home, name) or ("local", "local")
                places.setdefault(place, []).append(ids[name])
    looks = fanout(
        lambda at: listing.look(ctx, ctx.host(*at[0]), list(dict.fromkeys(at[1]))),
        list(places.items()),
        at_once=32,
    )
    seen = {s.id: s for found in looks if not isinstance(found, Exception) for s in found}
    silent = {
        i: e for e, of in zip(looks, places.values(), strict=True) if isinstance(e, MngrError) for i in of
    }

    def one(name: str) -> Seen | MngrError:
        if name in ids and ids[name] in seen:
            return seen[ids[name]]
        if name in ids and ids[name] in silent:
            return silent[ids[name]]
        try:
            return find.get_seen(ctx, name)
        except MngrError as error:
            return error

    return [one(name) for name in wanted]


def failed(name: str, error: Exception, agent_id: str | None = None) -> Outcome:
    """The outcome of a target that did not work; a bug of ours is raised."""
    if not isinstance(error, MngrError):
        raise error
    return Outcome(
        id=agent_id, name=name, ok=False, error=error.message, hint=error.hint, exit_code=error.exit_code
    )


def each(
    ctx: Context,
    wanted: list[str],
    work: Callable[[Seen, AgentRecord], Outcome],
    at_once: int = 8,
    found: list[Seen | MngrError] | None = None,
) -> list[Outcome]:
    """`work` on every target in parallel, once on one that is named twice; what it raises becomes that target's outcome.

    `found`: what they stand for.
    """

    def one(pair: tuple[str, Seen | MngrError]) -> Outcome:
        name, seen = pair
        if isinstance(seen, MngrError):
            return failed(name, seen)
        try:
            return work(seen, record_of(seen))
        except MngrError as error:
            return failed(seen.record.name if seen.record else name, error, seen.id)

    found = resolve(ctx, wanted) if found is None else found
    pairs = once(list(zip(wanted, found, strict=True)))
    answers = fanout(one, pairs, at_once)
    return [
        a if not isinstance(a, Exception) else failed(n, a) for (n, _), a in zip(pairs, answers, strict=True)
    ]


def meant(ctx: Context, wanted: list[str]) -> list[tuple[str, Seen | MngrError]]:
    """Names and what they stand for, or why they stand for nothing; of several names for one agent the first."""
    return once(list(zip(wanted, resolve(ctx, wanted), strict=True)))


def once(pairs: list[tuple[str, Seen | MngrError]]) -> list[tuple[str, Seen | MngrError]]:
    """Those with another agent than all before: a name, an id and an address can stand for one."""
    first: dict[str, tuple[str, Seen | MngrError]] = {}
    for name, seen in pairs:
        first.setdefault(name if isinstance(seen, MngrError) else seen.id, (name, seen))
    return list(first.values())


def record_of(seen: Seen) -> AgentRecord:
    """The record, or an error that names the damage."""
    if seen.record is None:
        raise MngrError(
            f"the record of {seen.id} is damaged: {seen.damage}",
            f"put it away with: mngr destroy --force {seen.id}",
        )
    return seen.record
