"""Snapshots of hosts, from which a provider can create new hosts. Snapshots of agents are in `snapshot.py`."""

from __future__ import annotations

import json
import os
from typing import Any

from mngr.agents import saved_directory
from mngr.agents.context import Context
from mngr.agents.lifecycle import choose_and_start_hosts
from mngr.agents.saved import save as saving
from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.base.untrusted_json import as_object
from mngr.host import record_store
from mngr.host.protocol import PartialSnapshotProvider

_STARTED_FILE = "begun.json"


def save_host_snapshot(ctx: Context, address: str, snapshot_dir: str) -> None:
    """Save a snapshot of the host at `address` to `snapshot_dir`, which appears only when it is complete.

    Raise MngrError when the provider cannot snapshot hosts.
    """
    _, host_addresses = choose_and_start_hosts.split_agents_and_hosts(ctx, [address])
    provider, name = host_addresses[address]
    host_provider: Any = ctx.get_provider(provider)
    if not host_provider.can_snapshot_hosts:
        raise MngrError(
            f"{provider} hosts do not support snapshots",
            "snapshot each of its agents instead: mngr snapshot create AGENT",
        )
    ctx.get_host(provider, name)
    partial_dir = snapshot_dir + saved_directory.PARTIAL_SUFFIX
    try:
        os.makedirs(partial_dir, mode=0o700)
    except FileExistsError:
        raise MngrError(
            f"a snapshot called {os.path.basename(snapshot_dir)!r} is being created, or its creation was interrupted",
            "choose another name, or remove the interrupted snapshot: mngr gc",
        ) from None
    try:
        ctx.local_host.write(
            os.path.join(partial_dir, saving.OWNER_FILE), json.dumps(record_store.describe_this_process()).encode()
        )
        started = (
            host_provider.find_partial_snapshot(name, partial_dir)
            if isinstance(host_provider, PartialSnapshotProvider)
            else None
        )
        if started is not None:
            ctx.local_host.write(
                os.path.join(partial_dir, _STARTED_FILE), json.dumps({"provider": provider, **started}).encode()
            )
        facts = host_provider.save_snapshot(name, partial_dir)
    except BaseException as error:
        # After a MngrError there is nothing to undo: the provider has created nothing.
        if not isinstance(error, MngrError):
            undo_partial_snapshot(ctx, partial_dir)
        ctx.local_host.run(["rm", "-rf", "--", partial_dir])
        raise
    saved = saved_directory.SavedState(
        id="",
        name=f"@{name}.{provider}",
        at=time_format.format_timestamp(),
        why="snapshot",
        host={"provider": provider, **facts},
    )
    saved_directory.write_saved_state(ctx.local_host, partial_dir, saved)
    saving.rename_to_final(ctx.local_host, partial_dir, snapshot_dir)
    ctx.local_host.run(["rm", "-f", "--", os.path.join(snapshot_dir, _STARTED_FILE)])


def undo_partial_snapshot(ctx: Context, partial_dir: str) -> None:
    """Have the provider delete what an interrupted snapshot created outside of its directory."""
    try:
        with open(os.path.join(partial_dir, _STARTED_FILE), encoding="utf-8") as file:
            facts = as_object(json.load(file))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return
    delete_provider_snapshot(ctx, facts)


def delete_provider_snapshot(ctx: Context, facts: dict[str, object] | None) -> None:
    """Have the provider delete its part of a host snapshot. A snapshot of an agent has no such facts."""
    if facts:
        host_provider: Any = ctx.get_provider(str(facts["provider"]))
        host_provider.delete_snapshot(facts)


def check_agent_snapshot(name: str, saved: saved_directory.SavedState) -> None:
    """Raise MngrError when the snapshot is one of a host, not of an agent."""
    if saved.host:
        raise MngrError(
            f"{name} is a snapshot of the host {saved.name}, not of an agent",
            f"create a host from it: mngr create NAME@.{saved.host['provider']} -b snapshot={name}",
        )
