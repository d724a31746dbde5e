"""Hosts that are gone for good: of each of their agents what is known goes to the graveyard, and then all is forgotten."""

from __future__ import annotations

import os
from typing import Any

from mngr.agents import saved_directory
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect import list as listing
from mngr.agents.lifecycle import host_recovery
from mngr.base import clock
from mngr.base.errors import HostGone, MngrError
from mngr.base.model import AgentRecord, Outcome
from mngr.host import registry, store


def forget_host(ctx: Context, error: HostGone) -> list[Outcome]:
    """Forget a host and all agents that it had; an outcome for each agent. Unreachable when what was kept cannot be had now."""
    known = host_recovery.list_backups(ctx, error)
    whole = {record.id: record for record in host_recovery.list_lost_agents(ctx, error, known)}
    half = [s.record for s in listing.list_last_observed(ctx, error) if s.record and s.id not in whole]
    outcomes = [_trash_lost_agent(ctx, record, error, known) for record in [*whole.values(), *half]]
    removal.destroy_host(ctx, error.provider, error.host)
    return outcomes


def forget_agent(ctx: Context, name: str, error: HostGone) -> Outcome | None:
    """Forget one agent, by name or id, and a host that was made for agents with its last; None if it never had it.

    Raises Unreachable, as forget_host.
    """
    wanted = (name, store.find_id(ctx.home, name))
    record = next((s.record for s in listing.list_last_observed(ctx, error) if s.id in wanted), None)
    if record is None:
        return None
    outcome = _trash_lost_agent(ctx, record, error, host_recovery.list_backups(ctx, error))
    facts = registry.find_facts(ctx.home, error.provider, error.host) or {}
    if facts.get("auto") and not listing.list_last_observed(ctx, error):
        try:
            removal.destroy_host(ctx, error.provider, error.host)
        except MngrError as problem:
            ctx.note(f"{error.host} has no agents any more and stays: {problem.message}")
    return outcome


def _trash_lost_agent(ctx: Context, record: AgentRecord, error: HostGone, known: dict[str, dict[str, Any]]) -> Outcome:
    """A grave with what was kept elsewhere; one without files says who lies there, and why there is nothing to bring back."""
    extra: dict[str, Any] = {"dirty": None, "unpulled": None, "branch_kept": None, "ignored_bytes": None}
    if record.id in known:
        kept = host_recovery.trash_lost_agent(ctx, record, error, known[record.id])
        return Outcome(id=record.id, name=record.name, extra={**extra, "grave": kept.path}, notes=(kept.note,))
    grave = os.path.join(ctx.home.trash, record.id)
    os.makedirs(grave, mode=0o700, exist_ok=True)
    meta = {
        "v": 1,
        "id": record.id,
        "name": record.name,
        "at": clock.format_timestamp(),
        "why": "destroy",
        "saved": "none",
    }
    lost = {"dirty": False, "unpulled": 0, "ignored_bytes": 0, "lost": error.message}
    saved_directory.write_meta(ctx.local_host, grave, {**meta, **lost, "record": record.to_dict()})
    store.release_name(ctx.home, record.name, record.id)
    store.forget_branch(ctx.home, record)
    note = f"{error.message}; of {record.name} only what was pulled is left"
    return Outcome(id=record.id, name=record.name, extra={**extra, "grave": grave}, notes=(note,))
