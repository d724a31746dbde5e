"""`gc` beyond this machine: what every host shows, and what providers have that no command knows of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mngr.agents.archive.gc.tasks import CACHE_TIME, YOUNG, Task, World
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import Seen
from mngr.agents.inspect.trash import list_graves
from mngr.agents.lifecycle import lost_hosts
from mngr.base.errors import HostGone, HostStopped, MngrError
from mngr.host import registry, store
from mngr.host.protocol import Host, Leftovers


def silent(world: World) -> list[Task]:
    """Hosts that could not be looked at. One that is stopped is as it should be."""
    return [
        Task(
            what="host",
            name=f"@{name}.{provider}",
            note=f"{name} was not looked at: {error.message}",
            action="unreachable",
        )
        for (provider, name), error in world.errors.items()
        if not isinstance(error, HostStopped | HostGone)
    ]


def leftovers(ctx: Context, world: World) -> list[Task]:
    """Hosts that are gone, hosts that were made for agents and have none, and what providers found."""
    found = []
    for error in world.errors.values():
        if isinstance(error, HostGone) and not registry.is_gone(ctx.home, error.provider, error.host):
            name = f"@{error.host}.{error.provider}"
            found.append(Task(what="host that is gone", name=name, act=_forget(ctx, error)))
    for host, agents in world.answers:
        if not host.is_here and _is_forsaken(ctx, host, agents):
            found.append(Task(what="host without agents", name=host.name, act=_retire(ctx, host)))
    for name in registry.providers(ctx.home):
        try:
            provider = ctx.provider(name)
            for left in provider.leftovers() if isinstance(provider, Leftovers) else ():
                found.append(Task(what=left.what, name=left.name, act=left.act, note=left.note))
        except MngrError as error:
            found.append(Task(what="provider", name=name, note=f"{name} was not looked at: {error.message}"))
    return found


def _is_forsaken(ctx: Context, host: Host, agents: list[Seen]) -> bool:
    """Whether a host was made for agents, has none, and nobody is just making one."""
    facts = registry.load(ctx.home, host.provider, host.name) or {}
    if not facts.get("auto") or any(seen.record and seen.record.phase == "ready" for seen in agents):
        return False
    maker = facts.get("maker")
    if store.is_alive(maker) if maker else registry.age(ctx.home, host.provider, host.name) < YOUNG:
        return False
    try:
        return not agents or not listing.look(ctx, host)  # those that were half made are taken away by now
    except MngrError:
        return False


def memories(ctx: Context, world: World) -> list[Task]:
    """What hosts were like that are gone for long, when no agent in the graveyard was on them."""
    found = []
    mourned = {(grave.provider, grave.host) for grave in list_graves(ctx)}
    for name in registry.providers(ctx.home):
        old = [
            host
            for host in registry.names(ctx.home, name, "gone")
            if (name, host) not in mourned and registry.age(ctx.home, name, host, "gone") > CACHE_TIME
        ]
        if old:
            task = partial(_fade, ctx, name, old)
            found.append(
                Task(what="what was known of hosts that are gone", name=f"{len(old)} of {name}", act=task)
            )
    return found


def _fade(ctx: Context, provider: str, hosts: list[str]) -> None:
    for host in hosts:
        registry.drop(ctx.home, provider, host, "gone")


def _forget(ctx: Context, error: HostGone) -> Callable[[], None]:
    def act() -> None:
        for outcome in lost_hosts.forget_host(ctx, error):
            for note in outcome.notes:
                ctx.note(note)

    return act


def _retire(ctx: Context, host: Host) -> Callable[[], None]:
    return lambda: removal.retire(ctx, [host])
