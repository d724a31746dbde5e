"""`destroy`: everything of an agent goes to the graveyard, then away. Steps; any of them may be interrupted and repeated."""

from __future__ import annotations

import os
from typing import Any

from mngr.agents import saved_directory
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.inspect.targets import LIVE_STATES, make_failed_outcome, resolve_names
from mngr.agents.lifecycle import hosts, lost_hosts
from mngr.agents.saved import staging
from mngr.agents.workdir.discard import (
    discard_agent,
    end_processes,
    finish_restore,
    is_restore_unfinished,
    is_work_dir_reused,
)
from mngr.agents.workdir.transfer import remove_work_dir
from mngr.base import clock, names
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable
from mngr.base.fanout import map_parallel
from mngr.base.model import AgentRecord, Outcome
from mngr.host import scripts, store
from mngr.host.protocol import Host

PENDING_REMOVAL = {"leaving": True}  # in a grave's meta.json: its host has not yet said that the agent is gone
SAVED_MARKER = "saved"  # in the agent's directory: the grave is whole, so taking things away has begun


def destroy(ctx: Context, wanted: list[str], *, force: bool = False) -> list[Outcome]:
    """Destroy agents, and hosts (`@HOST`) with all agents on them."""
    agents, places = hosts.split_agents_and_hosts(ctx, wanted)
    outcomes = _destroy_agents(ctx, agents, force=force)
    outcomes.update(hosts.run_on_hosts(places, lambda place: _destroy_host(ctx, *place, force=force)))
    return [outcomes[name] for name in wanted if name in outcomes]


def _destroy_host(ctx: Context, provider: str, name: str, *, force: bool) -> Outcome:
    """A host goes when all its agents are in the graveyard."""
    try:
        found = removal.list_agents_to_destroy(ctx, provider, name)
    except HostGone as error:
        return _make_host_outcome(provider, name, lost_hosts.forget_host(ctx, error))
    for seen in found:
        try:
            _check_destroyable(seen, force)
        except MngrError as error:
            hint = error.hint if force else f"stop its agents first, or: mngr destroy --force @{name}.{provider}"
            raise MngrError(f"{name} stays: {error.message}", hint) from None
    outcomes = move_to_trash(ctx, found)
    bad = [outcome for outcome in outcomes if not outcome.ok]
    if bad:
        raise MngrError(f"{name} stays, for {bad[0].name} could not be put away: {bad[0].error}", bad[0].hint)
    removal.destroy_host(ctx, provider, name)
    return _make_host_outcome(provider, name, outcomes)


def _make_host_outcome(provider: str, name: str, outcomes: list[Outcome]) -> Outcome:
    """The outcome for a host, by those of its agents."""
    notes = tuple(note for outcome in outcomes for note in outcome.notes)
    extra = {"agents": [outcome.id for outcome in outcomes]}
    return Outcome(id=None, name=f"@{name}.{provider}", extra=extra, notes=notes)


def _destroy_agents(ctx: Context, wanted: list[str], *, force: bool) -> dict[str, Outcome]:
    """All processes end in one go, then each is saved and taken away; a host that was made for them goes with the last."""
    outcomes: dict[str, Outcome] = {}
    targets: dict[str, tuple[str, ObservedAgent]] = {}
    for name, seen in zip(wanted, resolve_names(ctx, wanted), strict=True):
        if isinstance(seen, MngrError):
            try:
                forgotten = lost_hosts.forget_agent(ctx, name, seen) if isinstance(seen, HostGone) else None
                outcomes[name] = (
                    forgotten or _finish_interrupted_destroy(ctx, name, seen) or make_failed_outcome(name, seen)
                )
            except Unreachable as error:
                outcomes[name] = make_failed_outcome(name, error)
            continue
        try:
            _check_destroyable(seen, force)
        except MngrError as error:
            outcomes[name] = make_failed_outcome(seen.record.name if seen.record else name, error, seen.id)
        else:
            targets.setdefault(seen.id, (name, seen))
    for outcome, (name, _) in zip(
        move_to_trash(ctx, [seen for _, seen in targets.values()]), targets.values(), strict=True
    ):
        outcomes[name] = outcome
    removal.destroy_empty_hosts(ctx, [seen.host for name, seen in targets.values() if outcomes[name].ok])
    return outcomes


def move_to_trash(ctx: Context, targets: list[ObservedAgent]) -> list[Outcome]:
    """All steps for agents that may be destroyed; an outcome each."""

    def begin(seen: ObservedAgent) -> AgentRecord | None:
        if seen.record is not None:
            ctx.hooks.make_step_announcer("destroy", seen.record)("mark")
        return mark_destroying(ctx, seen)

    marked = map_parallel(begin, targets, at_once=4)
    _end_agent_processes(
        ctx, [seen for seen, before in zip(targets, marked, strict=True) if not isinstance(before, Exception)]
    )

    def one(pair: tuple[ObservedAgent, AgentRecord | Exception | None]) -> Outcome:
        seen, before = pair
        if isinstance(before, Exception):
            raise before
        return _trash_damaged(ctx, seen) if before is None else _save_and_remove(ctx, seen.host, before)

    answers = map_parallel(one, list(zip(targets, marked, strict=True)), at_once=4)
    return [
        make_failed_outcome(seen.record.name if seen.record else seen.id, answer, seen.id)
        if isinstance(answer, Exception)
        else answer
        for seen, answer in zip(targets, answers, strict=True)
    ]


def _check_destroyable(seen: ObservedAgent, force: bool) -> None:
    record, state = seen.record, seen.state
    name = record.name if record else seen.id
    if record is not None and record.phase == "creating" and seen.evidence.is_owner_alive:
        raise MngrError(f"{name} is just being made", "wait until that is done, or interrupt it")
    if record is not None and record.phase == "destroying" and seen.evidence.is_owner_alive:
        raise MngrError(f"{name} is just being destroyed by another command", "see: mngr list")
    if state.state in LIVE_STATES and not force:
        raise MngrError(f"{name} is {state.state}", f"stop it first, or: mngr destroy --force {name}")
    if state.state == "UNKNOWN" and not force:
        raise MngrError(
            f"{name} is UNKNOWN: {state.reason}", f"to put it away all the same: mngr destroy --force {name}"
        )


def mark_destroying(ctx: Context, seen: ObservedAgent) -> AgentRecord | None:
    """From here on `list` shows that it is being destroyed, and `gc` can finish it. The record as it was before."""
    if seen.record is None:
        return None
    host = seen.host
    with host.lock(os.path.join(host.home.agent_dir(seen.id), "lock")):
        before = store.get_record(host, seen.id)
        if before.phase != "ready" and store.is_owner_alive(before.owner, not host.is_local):
            raise MngrError(f"another command is at work on {before.name}", "see: mngr list")
        if before.phase == "ready" and (not host.is_local or is_restore_unfinished(host, before)):
            finish_restore(host, before)
        store.save_record(host, before.replace(phase="destroying", owner=store.describe_this_process()))
    return before


def _end_agent_processes(ctx: Context, targets: list[ObservedAgent]) -> None:
    grace = clock.parse_duration(str(ctx.settings.get("stop.grace")))
    by_host: dict[int, tuple[Host, list[str]]] = {}
    for seen in targets:
        if seen.record is not None:
            ctx.hooks.make_step_announcer("destroy", seen.record)("end")
        by_host.setdefault(id(seen.host), (seen.host, []))[1].append(seen.id)
    for host, ids in by_host.values():
        end_processes(host, ids, grace=grace, reason="")


def _save_and_remove(ctx: Context, host: Host, before: AgentRecord) -> Outcome:
    """Save, take away, bury an agent that is marked and whose processes have ended."""
    if is_restore_unfinished(host, before):  # half made from a saved state, which still is the better one
        discard_agent(ctx, host, before)
        return Outcome(id=before.id, name=before.name, notes=("it was only half restored; what it is made from stays",))
    record = before.replace(phase="ready", owner=None)  # as it shall be in the grave
    announce = ctx.hooks.make_step_announcer("destroy", record)
    grave = os.path.join(ctx.home.trash, record.id)
    marker = os.path.join(host.home.agent_dir(record.id), SAVED_MARKER)
    again = os.path.exists(os.path.join(grave, saved_directory.META_FILE)) and host.has_path(marker)
    try:
        announce("save")
        # On a second try what is left of the work dir is not the work any more.
        claimed = is_work_dir_reused(host, record)  # then what is there now is another agent's
        mine = record.replace(work_dir=f"{record.work_dir}-{record.id[2:8]}") if claimed else record
        meta = (
            saved_directory.load_meta(grave)
            if again
            else staging.save_agent(ctx, host, mine, grave, why="destroy", more=PENDING_REMOVAL)
        )
        announce("remove")
    except BaseException:
        unmark_destroying(host, before)
        raise
    if host.is_local:
        host.write(marker, b"")
        kept = 0 if claimed else remove_work_dir(host, record)
        announce("bury")
        store.add_event(host, record.id, "destroyed", name=record.name, branch=record.branch)
        move_agent_files(host, host.home.agent_dir(record.id), os.path.join(grave, saved_directory.AGENT_DIR))
    else:
        kept = remove_from_host(host, record, keeps_work=claimed)
        announce("bury")
        confirm_removed(ctx, grave, meta)
    store.release_name(ctx.home, record.name, record.id, host)
    store.forget_branch(ctx.home, record)
    ctx.hooks.notify("mngr_destroyed", agent=record)
    return _make_outcome(record, meta, kept, grave)


def unmark_destroying(host: Host, before: AgentRecord) -> None:
    """The agent as it was; on a host that is out of reach it stays marked, which can be seen and repeated."""
    try:
        store.save_record(host, before)
    except Unreachable:
        pass


def remove_from_host(host: Host, record: AgentRecord, *, keeps_work: bool = False) -> int:
    """Take an agent away from another host, its state being saved; how many commits kept its branch there."""
    kept = 0
    if record.transfer == "worktree" and not keeps_work:
        host.write(os.path.join(host.home.agent_dir(record.id), SAVED_MARKER), b"")
        kept = remove_work_dir(host, record)
    _remove_remote_files(host, record.id, record.name, "" if keeps_work else staging.get_work_dir_name(host, record))
    return kept


def _remove_remote_files(host: Host, agent_id: str, name: str, work: str) -> None:
    argv = ["sh", "-c", scripts.read_program("leave.sh"), "leave.sh", host.home.root, agent_id, name, work]
    result = host.run(argv)
    if result.code:
        raise MngrError(
            f"cannot take {name or agent_id} away from {host.name}: {result.error_line}",
            "its state is saved; mend it there, and destroy it again",
        )


def confirm_removed(ctx: Context, grave: str, meta: dict[str, Any]) -> None:
    """The host has said that the agent is no longer there: from now on it is in its grave only."""
    saved_directory.write_meta(ctx.local_host, grave, {**meta, "leaving": False})


def is_still_on_host(ctx: Context, meta: dict[str, Any]) -> bool:
    """Whether an agent that is in its grave is still on its host too; asks the host. Raises Unreachable."""
    if not meta.get("leaving"):
        return False
    try:
        host = ctx.get_host(str(meta["record"]["provider"]), str(meta["record"]["host"]))
    except NotFound:
        return False  # a host that is no longer there has no agents
    return host.has_path(host.home.agent_dir(str(meta["id"])))


def _finish_interrupted_destroy(ctx: Context, name: str, error: MngrError) -> Outcome | None:
    """The outcome for an agent whose destroying was cut off just when it was done."""
    agent_id = (store.find_id(ctx.home, name) if names.is_agent_name(name) else None) or name
    grave = os.path.join(ctx.home.trash, agent_id)
    if not isinstance(error, NotFound) or not names.is_agent_id(agent_id):
        return None
    try:
        meta = saved_directory.load_meta(grave)
        if not meta.get("leaving") or is_still_on_host(ctx, meta):
            return None
    except (ValueError, MngrError):
        return None
    confirm_removed(ctx, grave, meta)
    store.release_name(ctx.home, str(meta["name"]), agent_id)
    return Outcome(id=agent_id, name=str(meta["name"]), extra={"grave": grave})


def move_agent_files(host: Host, directory: str, place: str) -> None:
    """Move an agent's own files: the last act, after which it is no longer there."""
    if os.path.lexists(place):
        host.run(["rm", "-rf", "--", place])
    try:
        os.rename(directory, place)
    except OSError:  # another file system
        moved = host.run(["mv", "--", directory, place])
        if moved.code:
            raise MngrError(
                f"cannot move {directory} to the graveyard: {moved.error_line}", "check space and permissions"
            ) from None


def _make_outcome(record: AgentRecord, meta: dict[str, Any], kept: int, grave: str) -> Outcome:
    name, notes = record.name, []
    if meta["dirty"]:
        notes.append(f"{name} had uncommitted work, saved with the rest: mngr undestroy {name}")
    if kept:
        notes.append(
            f"the branch {record.branch} stays: it holds {_format_commit_count(kept)} that no other branch has"
        )
    elif meta["unpulled"]:
        what = _format_commit_count(meta["unpulled"])
        notes.append(f"{name} had {what} that no other branch has, saved with the rest: mngr undestroy {name}")
    if meta["ignored_bytes"]:
        notes.append(f"{name} had {format_size(meta['ignored_bytes'])} of ignored files, which are not kept")
    extra = {
        "dirty": meta["dirty"],
        "unpulled": meta["unpulled"],
        "branch_kept": record.branch if kept else None,
        "ignored_bytes": meta["ignored_bytes"],
        "grave": grave,
    }
    return Outcome(id=record.id, name=name, extra=extra, notes=tuple(notes))


def _format_commit_count(count: int) -> str:
    return "1 commit" if count == 1 else f"{count} commits"


def format_size(count: int) -> str:
    """Bytes as people read them."""
    amount = float(count)
    for unit in ("bytes", "KB", "MB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"


def _trash_damaged(ctx: Context, seen: ObservedAgent) -> Outcome:
    """Without a record nobody knows what is the agent's: its files are put away, all else is named and left."""
    host, agent_id = seen.host, seen.id
    directory, grave = host.home.agent_dir(agent_id), os.path.join(ctx.home.trash, agent_id)
    work = _find_work_dir(host, directory)
    meta: dict[str, Any] = {
        "v": 1,
        "id": agent_id,
        "name": agent_id,
        "at": clock.format_timestamp(),
        "why": "destroy",
        "record": None,
        "saved": "none",
    }
    meta.update(dirty=False, unpulled=0, ignored_bytes=0, damage=seen.damage, work_dir=work)
    with staging.StagingHome(ctx) as here:
        if not host.is_local:
            staging.copy_agent_files_here(host, agent_id, here)
            directory = here.host.home.agent_dir(agent_id)
        os.makedirs(grave, mode=0o700, exist_ok=True)
        saved_directory.write_meta(ctx.local_host, grave, meta)
        move_agent_files(ctx.local_host, directory, os.path.join(grave, saved_directory.AGENT_DIR))
    if not host.is_local:
        _remove_remote_files(host, agent_id, "", "")
    for name in store.list_names(ctx.home):
        store.release_name(ctx.home, name, agent_id, host)
    notes = (f"its work dir was not touched: {work}",) if work else ()
    extra = {"dirty": None, "unpulled": None, "branch_kept": None, "ignored_bytes": None, "grave": grave}
    return Outcome(id=agent_id, name=agent_id, extra=extra, notes=notes)


def _find_work_dir(host: Host, directory: str) -> str | None:
    """What the agent's own variables say."""
    try:
        text = host.read(os.path.join(directory, "env")).decode("utf-8", "replace")
    except MngrError:
        return None
    found = text.rpartition("\nexport MNGR_WORK_DIR=")[2].partition("\n")[0].strip("'")
    return found if found and host.has_path(found) else None
