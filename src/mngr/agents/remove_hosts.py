"""Removes hosts that mngr created, and leftovers of incomplete ones. Choosing, starting and stopping hosts is in lifecycle."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable
from mngr.base.fanout import map_parallel
from mngr.host import host_store, record_store
from mngr.host.protocol import Host, LeftoverProvider

_MAX_PARALLEL_HOSTS = 8


def list_agents_to_destroy(ctx: Context, provider_name: str, host_name: str) -> list[ObservedAgent]:
    """Return the agents of a host that the caller will destroy. Start a stopped host; raise HostGone for a lost one."""
    provider = ctx.get_provider(provider_name)
    if not provider.can_create_hosts:
        raise MngrError(
            f"mngr did not create the {provider_name} host {host_name}, so it cannot destroy it",
            f"destroy its agents instead: mngr list --host {host_name} --ids | mngr destroy -",
        )
    host = ctx.get_host(provider_name, host_name)
    facts = host_store.find_facts(ctx.home, provider_name, host_name)
    if facts is not None and facts.guest:
        return []  # Its agents belong to the home that created it.
    try:
        return listing.observe_host(ctx, host)
    except HostGone:
        raise
    except Unreachable:
        if not provider.can_stop_hosts:
            raise
        try:
            provider.start(host_name)
        except NotFound as error:
            raise HostGone(provider_name, host_name, error.message) from None
        return listing.observe_host(ctx, host)


def destroy_host(ctx: Context, provider_name: str, host_name: str) -> None:
    """Destroy a host and release the names of its agents in this home."""
    ctx.get_provider(provider_name).destroy(host_name)
    for agent_name in record_store.list_names(ctx.home):
        if record_store.find_host_of_name(ctx.home, agent_name) == (provider_name, host_name):
            record_store.release_name(ctx.home, agent_name, record_store.find_id(ctx.home, agent_name) or "")


def remove_incomplete_hosts(ctx: Context, provider_name: str) -> list[str]:
    """Remove the leftovers of hosts whose creation was interrupted, and return the problems."""
    problems = []
    try:
        provider = ctx.get_provider(provider_name)
        leftovers = provider.list_leftovers() if isinstance(provider, LeftoverProvider) else []
    except MngrError as error:
        return [f"mngr could not ask {provider_name} for incomplete hosts: {error.message}"]
    for leftover in leftovers:
        try:
            if leftover.is_incomplete and leftover.remove is not None:
                leftover.remove()
        except MngrError as error:
            problems.append(
                f"mngr could not remove the incomplete host {leftover.name}: {error.message}; try again with: mngr gc"
            )
    return problems


def destroy_empty_hosts(ctx: Context, hosts: list[Host]) -> None:
    """Destroy those of the hosts that were created for agents and now have none."""

    def destroy_if_empty(host: Host) -> None:
        facts = host_store.find_facts(ctx.home, host.provider, host.name) if not host.is_local else None
        if facts is not None and facts.auto and not listing.observe_host(ctx, host):
            destroy_host(ctx, host.provider, host.name)

    unique_hosts = list({id(host): host for host in hosts}.values())
    for host, error in zip(
        unique_hosts, map_parallel(destroy_if_empty, unique_hosts, at_once=_MAX_PARALLEL_HOSTS), strict=True
    ):
        if isinstance(error, MngrError):
            ctx.note(f"mngr could not destroy the host {host.name}, which has no agents any more: {error.message}")
        elif error is not None:
            raise error
