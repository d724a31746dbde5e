"""Forgets hosts that are gone for good, and moves what is known of their agents to the trash."""

from __future__ import annotations

import os

from mngr.agents import remove_hosts, saved_directory
from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.lifecycle import host_recovery
from mngr.base import time_format
from mngr.base.errors import HostGone, MngrError
from mngr.base.model import AgentRecord, Outcome
from mngr.host import agent_origin, host_store, record_store


def forget_host(ctx: Context, error: HostGone) -> list[Outcome]:
    """Forget a host and its agents, and return an outcome for each agent.

    Raise Unreachable when the provider cannot give its backups now.
    """
    backups = host_recovery.list_backups(ctx, error)
    complete = {record.id: record for record in host_recovery.list_lost_agents(ctx, error, backups)}
    incomplete = [
        agent.record for agent in listing.list_last_observed(ctx, error) if agent.record and agent.id not in complete
    ]
    outcomes = [_trash_lost_agent(ctx, record, error, backups) for record in [*complete.values(), *incomplete]]
    remove_hosts.destroy_host(ctx, error.provider, error.host)
    return outcomes


def forget_agent(ctx: Context, name: str, error: HostGone) -> Outcome | None:
    """Forget one agent by name or id, or return None when the host never had it.

    The last agent of a host that was created for agents takes the host with it. Raise Unreachable as forget_host does.
    """
    name_and_id = (name, record_store.find_id(ctx.home, name))
    record = next((agent.record for agent in listing.list_last_observed(ctx, error) if agent.id in name_and_id), None)
    if record is None:
        return None
    outcome = _trash_lost_agent(ctx, record, error, host_recovery.list_backups(ctx, error))
    facts = host_store.find_facts(ctx.home, error.provider, error.host)
    if facts is not None and facts.auto and not listing.list_last_observed(ctx, error):
        try:
            remove_hosts.destroy_host(ctx, error.provider, error.host)
        except MngrError as problem:
            ctx.note(f"mngr could not destroy the host {error.host}, which has no agents any more: {problem.message}")
    return outcome


def _trash_lost_agent(
    ctx: Context, record: AgentRecord, error: HostGone, backups: dict[str, host_recovery.AgentBackup]
) -> Outcome:
    """Put an agent into the trash with its backup, or without files but with the reason for the loss."""
    extra: dict[str, object] = {"dirty": None, "unpulled": None, "branch_kept": None, "ignored_bytes": None}
    if record.id in backups:
        recovered = host_recovery.trash_lost_agent(ctx, record, error, backups[record.id])
        return Outcome(
            id=record.id, name=record.name, extra={**extra, "trash_dir": recovered.path}, notes=(recovered.note,)
        )
    trash_dir = os.path.join(ctx.home.trash, record.id)
    os.makedirs(trash_dir, mode=0o700, exist_ok=True)
    saved = saved_directory.SavedState(
        id=record.id,
        name=record.name,
        at=time_format.format_timestamp(),
        why="destroy",
        record=agent_origin.correct_record(ctx.home, record.replace(host=error.host, provider=error.provider)),
        lost=error.message,
    )
    saved_directory.write_saved_state(ctx.local_host, trash_dir, saved)
    record_store.release_name(ctx.home, record.name, record.id)
    agent_origin.forget_origin(ctx.home, record)
    note = f"{error.message}; from {record.name} you have only the commits that you pulled"
    return Outcome(id=record.id, name=record.name, extra={**extra, "trash_dir": trash_dir}, notes=(note,))
