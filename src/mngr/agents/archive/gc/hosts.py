"""`gc` beyond this machine: what every host shows, and what providers have that no command knows of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mngr.agents.archive.gc.tasks import MAX_CACHE_SECONDS, MIN_AGE_SECONDS, CleanupTask, HostSurvey
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.inspect.trash import list_trash
from mngr.agents.lifecycle import lost_hosts
from mngr.base.errors import HostGone, HostStopped, MngrError
from mngr.host import registry, store
from mngr.host.protocol import Host, LeftoverProvider


def list_unreachable_hosts(world: HostSurvey) -> list[CleanupTask]:
    """Hosts that could not be looked at. One that is stopped is as it should be."""
    return [
        CleanupTask(
            category="host",
            name=f"@{name}.{provider}",
            note=f"{name} was not looked at: {error.message}",
            action="unreachable",
        )
        for (provider, name), error in world.errors.items()
        if not isinstance(error, HostStopped | HostGone)
    ]


def list_leftover_hosts(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """Hosts that are gone, hosts that were made for agents and have none, and what providers found."""
    found = []
    for error in world.errors.values():
        if isinstance(error, HostGone) and not registry.is_removed(ctx.home, error.provider, error.host):
            name = f"@{error.host}.{error.provider}"
            found.append(CleanupTask(category="host that is gone", name=name, run=_make_forget_action(ctx, error)))
    for host, agents in world.agents_by_host:
        if not host.is_local and _is_abandoned(ctx, host, agents):
            found.append(
                CleanupTask(category="host without agents", name=host.name, run=_make_removal_action(ctx, host))
            )
    for name in registry.list_providers(ctx.home):
        try:
            provider = ctx.get_provider(name)
            for left in provider.list_leftovers() if isinstance(provider, LeftoverProvider) else ():
                found.append(CleanupTask(category=left.description, name=left.name, run=left.remove, note=left.note))
        except MngrError as error:
            found.append(CleanupTask(category="provider", name=name, note=f"{name} was not looked at: {error.message}"))
    return found


def _is_abandoned(ctx: Context, host: Host, agents: list[ObservedAgent]) -> bool:
    """Whether a host was made for agents, has none, and nobody is just making one."""
    facts = registry.find_facts(ctx.home, host.provider, host.name) or {}
    if not facts.get("auto") or any(seen.record and seen.record.phase == "ready" for seen in agents):
        return False
    maker = facts.get("maker")
    if store.is_owner_alive(maker) if maker else registry.get_age(ctx.home, host.provider, host.name) < MIN_AGE_SECONDS:
        return False
    try:
        return not agents or not listing.observe_host(ctx, host)  # those that were half made are taken away by now
    except MngrError:
        return False


def list_old_host_facts(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """What hosts were like that are gone for long, when no agent in the graveyard was on them."""
    found = []
    mourned = {(grave.provider, grave.host) for grave in list_trash(ctx)}
    for name in registry.list_providers(ctx.home):
        old = [
            host
            for host in registry.list_hosts(ctx.home, name, "gone")
            if (name, host) not in mourned and registry.get_age(ctx.home, name, host, "gone") > MAX_CACHE_SECONDS
        ]
        if old:
            task = partial(_delete_host_facts, ctx, name, old)
            found.append(
                CleanupTask(category="what was known of hosts that are gone", name=f"{len(old)} of {name}", run=task)
            )
    return found


def _delete_host_facts(ctx: Context, provider: str, hosts: list[str]) -> None:
    for host in hosts:
        registry.delete_phases(ctx.home, provider, host, "gone")


def _make_forget_action(ctx: Context, error: HostGone) -> Callable[[], None]:
    def act() -> None:
        for outcome in lost_hosts.forget_host(ctx, error):
            for note in outcome.notes:
                ctx.note(note)

    return act


def _make_removal_action(ctx: Context, host: Host) -> Callable[[], None]:
    return lambda: removal.destroy_empty_hosts(ctx, [host])
