"""Remove hosts that mngr created, and what is left of them."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable
from mngr.base.fanout import map_parallel
from mngr.host import registry, store
from mngr.host.protocol import Host, LeftoverProvider

_MAX_PARALLEL_HOSTS = 8  # hosts


def list_agents_to_destroy(ctx: Context, provider: str, name: str) -> list[ObservedAgent]:
    """The agents of a host that is to go, started if it is stopped; HostGone when nothing is left of it."""
    makes = ctx.get_provider(provider)
    if not makes.can_create_hosts:
        raise MngrError(f"{provider} hosts are not ours to destroy", "name its agents: mngr list --host " + name)
    host = ctx.get_host(provider, name)
    if (registry.find_facts(ctx.home, provider, name) or {}).get("guest"):
        return []  # what is on it is its owner's to destroy
    try:
        return listing.observe_host(ctx, host)
    except HostGone:
        raise
    except Unreachable:
        if not makes.can_stop_hosts:
            raise
        try:
            makes.start(name)
        except NotFound as error:
            raise HostGone(provider, name, error.message) from None
        return listing.observe_host(ctx, host)


def destroy_host(ctx: Context, provider: str, name: str) -> None:
    """Destroy a host and forget those of our names whose agents were on it."""
    ctx.get_provider(provider).destroy(name)
    for agent in store.list_names(ctx.home):
        if store.find_host_of_name(ctx.home, agent) == (provider, name):
            store.release_name(ctx.home, agent, store.find_id(ctx.home, agent) or "")


def remove_incomplete_hosts(ctx: Context, provider: str) -> list[str]:
    """Take away what is left of hosts whose making was cut off; what went wrong."""
    problems = []
    try:
        maker = ctx.get_provider(provider)
        found = maker.list_leftovers() if isinstance(maker, LeftoverProvider) else []
    except MngrError as error:
        return [f"{provider} could not be asked what was left half made: {error.message}"]
    for left in found:
        try:
            if left.is_incomplete and left.remove is not None:
                left.remove()
        except MngrError as error:
            problems.append(f"{left.name} is left half made: {error.message}; see: mngr gc")
    return problems


def destroy_empty_hosts(ctx: Context, places: list[Host]) -> None:
    """Destroy hosts that were made for agents, and now have none."""

    def one(host: Host) -> None:
        facts = registry.find_facts(ctx.home, host.provider, host.name) if not host.is_local else None
        if facts is not None and facts.get("auto") and not listing.observe_host(ctx, host):
            destroy_host(ctx, host.provider, host.name)

    hosts = list({id(place): place for place in places}.values())
    for host, error in zip(hosts, map_parallel(one, hosts, at_once=_MAX_PARALLEL_HOSTS), strict=True):
        if isinstance(error, MngrError):
            ctx.note(f"{host.name} has no agents any more and stays: {error.message}")
        elif error is not None:
            raise error
