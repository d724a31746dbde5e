"""Remove hosts that mngr created, and what is left of them."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import Seen
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable
from mngr.base.fanout import fanout
from mngr.host import registry, store
from mngr.host.protocol import Host, Leftovers

_AT_ONCE = 8  # hosts


def look_to_destroy(ctx: Context, provider: str, name: str) -> list[Seen]:
    """The agents of a host that is to go, started if it is stopped; HostGone when nothing is left of it."""
    makes = ctx.provider(provider)
    if not makes.can_create_hosts:
        raise MngrError(
            f"{provider} hosts are not ours to destroy", "name its agents: mngr list --host " + name
        )
    host = ctx.host(provider, name)
    if (registry.load(ctx.home, provider, name) or {}).get("guest"):
        return []  # what is on it is its owner's to destroy
    try:
        return listing.look(ctx, host)
    except HostGone:
        raise
    except Unreachable:
        if not makes.can_stop_hosts:
            raise
        try:
            makes.start(name)
        except NotFound as error:
            raise HostGone(provider, name, error.message) from None
        return listing.look(ctx, host)


def take_away(ctx: Context, provider: str, name: str) -> None:
    """Destroy a host and forget those of our names whose agents were on it."""
    ctx.provider(provider).destroy(name)
    for agent in store.list_names(ctx.home):
        if store.find_place(ctx.home, agent) == (provider, name):
            store.release_name(ctx.home, agent, store.find_id(ctx.home, agent) or "")


def end_interrupted(ctx: Context, provider: str) -> list[str]:
    """Take away what is left of hosts whose making was cut off; what went wrong."""
    problems = []
    try:
        maker = ctx.provider(provider)
        found = maker.leftovers() if isinstance(maker, Leftovers) else []
    except MngrError as error:
        return [f"{provider} could not be asked what was left half made: {error.message}"]
    for left in found:
        try:
            if left.is_half_made and left.act is not None:
                left.act()
        except MngrError as error:
            problems.append(f"{left.name} is left half made: {error.message}; see: mngr gc")
    return problems


def retire(ctx: Context, places: list[Host]) -> None:
    """Destroy hosts that were made for agents, and now have none."""

    def one(host: Host) -> None:
        facts = registry.load(ctx.home, host.provider, host.name) if not host.is_here else None
        if facts is not None and facts.get("auto") and not listing.look(ctx, host):
            take_away(ctx, host.provider, host.name)

    hosts = list({id(place): place for place in places}.values())
    for host, error in zip(hosts, fanout(one, hosts, at_once=_AT_ONCE), strict=True):
        if isinstance(error, MngrError):
            ctx.note(f"{host.name} has no agents any more and stays: {error.message}")
        elif error is not None:
            raise error
