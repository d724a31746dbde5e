"""`gc` beyond this machine: what every host shows, and what providers have that no command knows of."""

from __future__ import annotations

import os
import time
from functools import partial

from mngr import registry, store
from mngr.errors import HostGone, HostStopped, MngrError
from mngr.model import Record
from mngr.ops import gone, hosts
from mngr.ops import list as listing
from mngr.ops.gc import CACHE_TIME, YOUNG, Task
from mngr.ops.undestroy import list_graves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.host import Host
    from mngr.ops.context import Context
    from mngr.ops.list import Seen


class World(Record):
    """What the hosts that answer show of their agents, and why the others do not."""

    answers: list[tuple[Host, list[Seen]]]
    errors: dict[tuple[str | None, str | None], MngrError]

    @property
    def ids(self) -> set[str]:
        """Every agent that was seen."""
        return {seen.id for _, agents in self.answers for seen in agents}

    def has_lost(self, ctx: Context, name: str, agent_id: str) -> bool:
        """Whether the host that a name points to says that there is no such agent, and nobody is just making it."""
        place = store.find_place(ctx.home, name)
        looked = {(host.provider, host.name) for host, _ in self.answers}
        if place not in looked or agent_id in self.ids or _age(os.path.join(ctx.home.names, name)) < YOUNG:
            return False
        host = ctx.host(*place)
        return not host.has(host.home.agent(agent_id))

    def has_renamed(self, ctx: Context, name: str, agent_id: str) -> bool:
        """Whether the agent that a name points to is called otherwise, and that not just now."""
        called = {seen.id: seen.record.name for _, agents in self.answers for seen in agents if seen.record}
        return called.get(agent_id, name) != name and _age(os.path.join(ctx.home.names, name)) > YOUNG


def look_around(ctx: Context) -> World:
    """Ask every host once."""
    answers: list[tuple[Host, list[Seen]]] = []
    errors: dict[tuple[str | None, str | None], MngrError] = {}
    for provider, name, answer in listing.look_everywhere(ctx):
        if isinstance(answer, MngrError):
            errors[provider, name] = answer
        else:
            answers.append((ctx.host(provider, name), answer))
    return World(answers=answers, errors=errors)


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
            look = getattr(ctx.provider(name), "leftovers", None)
            for left in look() if look else ():
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
        for outcome in gone.forget_host(ctx, error):
            for note in outcome.notes:
                ctx.note(note)

    return act


def _retire(ctx: Context, host: Host) -> Callable[[], None]:
    return lambda: hosts.retire(ctx, [host])


def _age(path: str) -> float:
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return 0.0
