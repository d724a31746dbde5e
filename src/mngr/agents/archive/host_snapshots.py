"""Snapshots of hosts: what a new host of the same provider can be made from. Agents have snapshots of their own."""

from __future__ import annotations

import json
import os
from typing import Any

from mngr.agents import saved_directory
from mngr.agents.context import Context
from mngr.agents.lifecycle import hosts
from mngr.agents.saved import save as saving
from mngr.base import clock
from mngr.base.errors import MngrError
from mngr.host import store
from mngr.host.protocol import PartialSnapshotProvider

_STARTED_FILE = "begun.json"


def save_host_snapshot(ctx: Context, word: str, place: str) -> None:
    """Write a snapshot of the host that `word` names to `place` in one step; MngrError when it can have none."""
    _, found = hosts.split_agents_and_hosts(ctx, [word])
    provider, name = found[word]
    makes: Any = ctx.get_provider(provider)
    if not makes.can_snapshot_hosts:
        raise MngrError(f"{provider} hosts have no snapshots", "keep its agents, each with: mngr snapshot create NAME")
    ctx.get_host(provider, name)
    part = place + saved_directory.PARTIAL_SUFFIX
    try:
        os.makedirs(part, mode=0o700)
    except FileExistsError:
        raise MngrError(
            f"a snapshot called {os.path.basename(place)!r} was cut off, or is just being made",
            "choose another name, or clean up first: mngr gc",
        ) from None
    try:
        ctx.local_host.write(os.path.join(part, saving.OWNER_FILE), json.dumps(store.describe_this_process()).encode())
        begun = makes.find_partial_snapshot(name, part) if isinstance(makes, PartialSnapshotProvider) else None
        if begun is not None:
            ctx.local_host.write(
                os.path.join(part, _STARTED_FILE), json.dumps({"provider": provider, **begun}).encode()
            )
        facts = makes.save_snapshot(name, part)
    except BaseException as error:
        if not isinstance(error, MngrError):  # else nothing was made
            undo_partial_snapshot(ctx, part)
        ctx.local_host.run(["rm", "-rf", "--", part])
        raise
    meta = {
        "v": 1,
        "id": "",
        "name": f"@{name}.{provider}",
        "at": clock.format_timestamp(),
        "why": "snapshot",
    }
    saved_directory.write_meta(ctx.local_host, part, {**meta, "record": None, "host": {"provider": provider, **facts}})
    saving.rename_to_final(ctx.local_host, part, place)
    ctx.local_host.run(["rm", "-f", "--", os.path.join(place, _STARTED_FILE)])


def undo_partial_snapshot(ctx: Context, part: str) -> None:
    """Have a provider delete what a snapshot that was cut off made outside of its place."""
    try:
        with open(os.path.join(part, _STARTED_FILE), encoding="utf-8") as file:
            delete_provider_snapshot(ctx, {"host": json.load(file)})
    except (FileNotFoundError, NotADirectoryError, ValueError):
        pass


def delete_provider_snapshot(ctx: Context, meta: dict[str, Any]) -> None:
    """Delete what the provider keeps for a snapshot, if it is one of a host."""
    facts = meta.get("host")
    if facts:
        makes: Any = ctx.get_provider(str(facts["provider"]))
        makes.delete_snapshot(facts)


def check_agent_snapshot(name: str, meta: dict[str, Any]) -> None:
    """MngrError when an agent is to be made from a snapshot of a host."""
    facts = meta.get("host")
    if facts:
        raise MngrError(
            f"{name} is a snapshot of the host {meta['name']}, not of an agent",
            f"make a host from it: mngr create NAME@.{facts['provider']} -b snapshot={name}",
        )
