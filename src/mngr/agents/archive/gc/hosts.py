"""`gc` for hosts: hosts that are unreachable, gone or abandoned, and resources that only a provider knows of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mngr.agents import remove_hosts
from mngr.agents.archive.gc.cleanup_items import MAX_CACHE_SECONDS, MIN_AGE_SECONDS, CleanupTask, HostSurvey
from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.inspect.trash import list_trash
from mngr.agents.lifecycle import forget_lost_hosts
from mngr.base.errors import HostGone, HostStopped, MngrError
from mngr.host import host_store, record_store
from mngr.host.protocol import Host, LeftoverProvider


def list_unreachable_hosts(survey: HostSurvey) -> list[CleanupTask]:
    """Return report-only tasks for hosts that could not be surveyed, except stopped and gone hosts."""
    return [
        CleanupTask(
            category="host",
            name=f"@{name}.{provider}",
            note=f"mngr could not check {name}: {error.message}",
            action="unreachable",
        )
        for (provider, name), error in survey.errors.items()
        if not isinstance(error, HostStopped | HostGone)
    ]


def list_leftover_hosts(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for hosts that are gone, for empty hosts created for agents, and for providers' leftovers."""
    tasks = []
    for error in survey.errors.values():
        if isinstance(error, HostGone) and not host_store.is_removed(ctx.home, error.provider, error.host):
            name = f"@{error.host}.{error.provider}"
            tasks.append(CleanupTask(category="lost host", name=name, run=_make_forget_action(ctx, error)))
    for host, agents in survey.agents_by_host:
        if not host.is_local and _is_abandoned(ctx, host, agents):
            tasks.append(
                CleanupTask(category="host without agents", name=host.name, run=_make_removal_action(ctx, host))
            )
    for name in host_store.list_providers(ctx.home):
        try:
            provider = ctx.get_provider(name)
            for leftover in provider.list_leftovers() if isinstance(provider, LeftoverProvider) else ():
                tasks.append(
                    CleanupTask(
                        category=leftover.description, name=leftover.name, run=leftover.remove, note=leftover.note
                    )
                )
        except MngrError as error:
            tasks.append(
                CleanupTask(category="provider", name=name, note=f"mngr could not check {name}: {error.message}")
            )
    return tasks


def _is_abandoned(ctx: Context, host: Host, agents: list[ObservedAgent]) -> bool:
    """True when a host was created for agents, has none, and no process is creating one on it."""
    facts = host_store.find_facts(ctx.home, host.provider, host.name)
    if facts is None or not facts.auto or any(agent.record and agent.record.phase == "ready" for agent in agents):
        return False
    if (
        record_store.is_owner_alive(facts.maker)
        if facts.maker
        else host_store.get_age(ctx.home, host.provider, host.name) < MIN_AGE_SECONDS
    ):
        return False
    try:
        # The survey is older than the clean-up of half-created agents, so look again.
        return not agents or not listing.observe_host(ctx, host)
    except MngrError:
        return False


def list_old_host_facts(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for facts about hosts that are long gone and that no trashed agent was on."""
    tasks = []
    trash_hosts = {(trashed.provider, trashed.host) for trashed in list_trash(ctx)}
    for name in host_store.list_providers(ctx.home):
        old_hosts = [
            host
            for host in host_store.list_hosts(ctx.home, name, "gone")
            if (name, host) not in trash_hosts and host_store.get_age(ctx.home, name, host, "gone") > MAX_CACHE_SECONDS
        ]
        if old_hosts:
            delete = partial(_delete_host_facts, ctx, name, old_hosts)
            tasks.append(
                CleanupTask(category="old records of lost hosts", name=f"{len(old_hosts)} of {name}", run=delete)
            )
    return tasks


def _delete_host_facts(ctx: Context, provider: str, hosts: list[str]) -> None:
    """Delete what mngr knows of these hosts, which are gone."""
    for host in hosts:
        host_store.delete_phases(ctx.home, provider, host, "gone")


def _make_forget_action(ctx: Context, error: HostGone) -> Callable[[], None]:
    """Return a function that forgets a host that is gone, and prints notes about its agents."""

    def act() -> None:
        for outcome in forget_lost_hosts.forget_host(ctx, error):
            for note in outcome.notes:
                ctx.note(note)

    return act


def _make_removal_action(ctx: Context, host: Host) -> Callable[[], None]:
    """Return a function that destroys the host if it has no agents."""
    return lambda: remove_hosts.destroy_empty_hosts(ctx, [host])
