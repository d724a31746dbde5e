"""`destroy`: everything of an agent goes to the graveyard, then away. Steps; any of them may be interrupted and repeated."""

from __future__ import annotations

import os
from typing import Any

from mngr.agents import saved_directory
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect.list import Seen
from mngr.agents.inspect.targets import LIVE, failed, resolve
from mngr.agents.lifecycle import hosts, lost_hosts
from mngr.agents.saved import stage
from mngr.agents.workdir.discard import discard, end_processes, is_claimed, is_restoring, settle
from mngr.agents.workdir.transfer import remove_work_dir
from mngr.base import clock, names
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable
from mngr.base.fanout import fanout
from mngr.base.model import AgentRecord, Outcome
from mngr.host import scripts, store
from mngr.host.protocol import Host

LEAVING = {"leaving": True}  # in a grave's meta.json: its host has not yet said that the agent is gone
SAVED = "saved"  # in the agent's directory: the grave is whole, so taking things away has begun


def destroy(ctx: Context, wanted: list[str], *, force: bool = False) -> list[Outcome]:
    """Destroy agents, and hosts (`@HOST`) with all agents on them."""
    agents, places = hosts.split(ctx, wanted)
    outcomes = _destroy_agents(ctx, agents, force=force)
    outcomes.update(hosts.each(places, lambda place: _destroy_host(ctx, *place, force=force)))
    return [outcomes[name] for name in wanted if name in outcomes]


def _destroy_host(ctx: Context, provider: str, name: str, *, force: bool) -> Outcome:
    """A host goes when all its agents are in the graveyard."""
    try:
        found = removal.look_to_destroy(ctx, provider, name)
    except HostGone as error:
        return _all_of(provider, name, lost_hosts.forget_host(ctx, error))
    for seen in found:
        try:
            _check(seen, force)
        except MngrError as error:
            hint = (
                error.hint if force else f"stop its agents first, or: mngr destroy --force @{name}.{provider}"
            )
            raise MngrError(f"{name} stays: {error.message}", hint) from None
    outcomes = put_away(ctx, found)
    bad = [outcome for outcome in outcomes if not outcome.ok]
    if bad:
        raise MngrError(f"{name} stays, for {bad[0].name} could not be put away: {bad[0].error}", bad[0].hint)
    removal.take_away(ctx, provider, name)
    return _all_of(provider, name, outcomes)


def _all_of(provider: str, name: str, outcomes: list[Outcome]) -> Outcome:
    """The outcome for a host, by those of its agents."""
    notes = tuple(note for outcome in outcomes for note in outcome.notes)
    extra = {"agents": [outcome.id for outcome in outcomes]}
    return Outcome(id=None, name=f"@{name}.{provider}", extra=extra, notes=notes)


def _destroy_agents(ctx: Context, wanted: list[str], *, force: bool) -> dict[str, Outcome]:
    """All processes end in one go, then each is saved and taken away; a host that was made for them goes with the last."""
    outcomes: dict[str, Outcome] = {}
    targets: dict[str, tuple[str, Seen]] = {}
    for name, seen in zip(wanted, resolve(ctx, wanted), strict=True):
        if isinstance(seen, MngrError):
            try:
                forgotten = lost_hosts.forget_agent(ctx, name, seen) if isinstance(seen, HostGone) else None
                outcomes[name] = forgotten or _gone_already(ctx, name, seen) or failed(name, seen)
            except Unreachable as error:
                outcomes[name] = failed(name, error)
            continue
        try:
            _check(seen, force)
        except MngrError as error:
            outcomes[name] = failed(seen.record.name if seen.record else name, error, seen.id)
        else:
            targets.setdefault(seen.id, (name, seen))
    for outcome, (name, _) in zip(
        put_away(ctx, [seen for _, seen in targets.values()]), targets.values(), strict=True
    ):
        outcomes[name] = outcome
    removal.retire(ctx, [seen.host for name, seen in targets.values() if outcomes[name].ok])
    return outcomes


def put_away(ctx: Context, targets: list[Seen]) -> list[Outcome]:
    """All steps for agents that may be destroyed; an outcome each."""

    def begin(seen: Seen) -> AgentRecord | None:
        if seen.record is not None:
            ctx.hooks.step("destroy", seen.record)("mark")
        return mark(ctx, seen)

    marked = fanout(begin, targets, at_once=4)
    _end(
        ctx, [seen for seen, before in zip(targets, marked, strict=True) if not isinstance(before, Exception)]
    )

    def one(pair: tuple[Seen, AgentRecord | Exception | None]) -> Outcome:
        seen, before = pair
        if isinstance(before, Exception):
            raise before
        return _bury_damaged(ctx, seen) if before is None else _finish(ctx, seen.host, before)

    answers = fanout(one, list(zip(targets, marked, strict=True)), at_once=4)
    return [
        failed(seen.record.name if seen.record else seen.id, answer, seen.id)
        if isinstance(answer, Exception)
        else answer
        for seen, answer in zip(targets, answers, strict=True)
    ]


def _check(seen: Seen, force: bool) -> None:
    record, state = seen.record, seen.state
    name = record.name if record else seen.id
    if record is not None and record.phase == "creating" and seen.evidence.owner_alive:
        raise MngrError(f"{name} is just being made", "wait until that is done, or interrupt it")
    if record is not None and record.phase == "destroying" and seen.evidence.owner_alive:
        raise MngrError(f"{name} is just being destroyed by another command", "see: mngr list")
    if state.state in LIVE and not force:
        raise MngrError(f"{name} is {state.state}", f"stop it first, or: mngr destroy --force {name}")
    if state.state == "UNKNOWN" and not force:
        raise MngrError(
            f"{name} is UNKNOWN: {state.reason}", f"to put it away all the same: mngr destroy --force {name}"
        )


def mark(ctx: Context, seen: Seen) -> AgentRecord | None:
    """From here on `list` shows that it is being destroyed, and `gc` can finish it. The record as it was before."""
    if seen.record is None:
        return None
    host = seen.host
    with host.lock(os.path.join(host.home.agent(seen.id), "lock")):
        before = store.load(host, seen.id)
        if before.phase != "ready" and store.is_alive(before.owner, not host.is_here):
            raise MngrError(f"another command is at work on {before.name}", "see: mngr list")
        if before.phase == "ready" and (not host.is_here or is_restoring(host, before)):
            settle(host, before)
        store.save(host, before.replace(phase="destroying", owner=store.this_process()))
    return before


def _end(ctx: Context, targets: list[Seen]) -> None:
    grace = clock.parse_length(str(ctx.settings.get("stop.grace")))
    by_host: dict[int, tuple[Host, list[str]]] = {}
    for seen in targets:
        if seen.record is not None:
            ctx.hooks.step("destroy", seen.record)("end")
        by_host.setdefault(id(seen.host), (seen.host, []))[1].append(seen.id)
    for host, ids in by_host.values():
        end_processes(host, ids, grace=grace, reason="")


def _finish(ctx: Context, host: Host, before: AgentRecord) -> Outcome:
    """Save, take away, bury an agent that is marked and whose processes have ended."""
    if is_restoring(host, before):  # half made from a saved state, which still is the better one
        discard(ctx, host, before)
        return Outcome(
            id=before.id, name=before.name, notes=("it was only half restored; what it is made from stays",)
        )
    record = before.replace(phase="ready", owner=None)  # as it shall be in the grave
    announce = ctx.hooks.step("destroy", record)
    grave = os.path.join(ctx.home.graveyard, record.id)
    marker = os.path.join(host.home.agent(record.id), SAVED)
    again = os.path.exists(os.path.join(grave, saved_directory.META)) and host.has(marker)
    try:
        announce("save")
        # On a second try what is left of the work dir is not the work any more.
        claimed = is_claimed(host, record)  # then what is there now is another agent's
        mine = record.replace(work_dir=f"{record.work_dir}-{record.id[2:8]}") if claimed else record
        meta = (
            saved_directory.load(grave)
            if again
            else stage.save(ctx, host, mine, grave, why="destroy", more=LEAVING)
        )
        announce("remove")
    except BaseException:
        unmark(host, before)
        raise
    if host.is_here:
        host.write(marker, b"")
        kept = 0 if claimed else remove_work_dir(host, record)
        announce("bury")
        store.add_event(host, record.id, "destroyed", name=record.name, branch=record.branch)
        bury(host, host.home.agent(record.id), os.path.join(grave, saved_directory.AGENT))
    else:
        kept = leave(host, record, keeps_work=claimed)
        announce("bury")
        settle_grave(ctx, grave, meta)
    store.release_name(ctx.home, record.name, record.id, host)
    store.forget_branch(ctx.home, record)
    ctx.hooks.tell("mngr_destroyed", agent=record)
    return _outcome(record, meta, kept, grave)


def unmark(host: Host, before: AgentRecord) -> None:
    """The agent as it was; on a host that is out of reach it stays marked, which can be seen and repeated."""
    try:
        store.save(host, before)
    except Unreachable:
        pass


def leave(host: Host, record: AgentRecord, *, keeps_work: bool = False) -> int:
    """Take an agent away from another host, its state being saved; how many commits kept its branch there."""
    kept = 0
    if record.transfer == "worktree" and not keeps_work:
        host.write(os.path.join(host.home.agent(record.id), SAVED), b"")
        kept = remove_work_dir(host, record)
    _take_away(host, record.id, record.name, "" if keeps_work else stage.work_name(host, record))
    return kept


def _take_away(host: Host, agent_id: str, name: str, work: str) -> None:
    argv = ["sh", "-c", scripts.program("leave.sh"), "leave.sh", host.home.root, agent_id, name, work]
    result = host.run(argv)
    if result.code:
        raise MngrError(
            f"cannot take {name or agent_id} away from {host.name}: {result.problem}",
            "its state is saved; mend it there, and destroy it again",
        )


def settle_grave(ctx: Context, grave: str, meta: dict[str, Any]) -> None:
    """The host has said that the agent is no longer there: from now on it is in its grave only."""
    saved_directory.write_meta(ctx.local, grave, {**meta, "leaving": False})


def is_leaving(ctx: Context, meta: dict[str, Any]) -> bool:
    """Whether an agent that is in its grave is still on its host too; asks the host. Raises Unreachable."""
    if not meta.get("leaving"):
        return False
    try:
        host = ctx.host(str(meta["record"]["provider"]), str(meta["record"]["host"]))
    except NotFound:
        return False  # a host that is no longer there has no agents
    return host.has(host.home.agent(str(meta["id"])))


def _gone_already(ctx: Context, name: str, error: MngrError) -> Outcome | None:
    """The outcome for an agent whose destroying was cut off just when it was done."""
    agent_id = (store.find_id(ctx.home, name) if names.is_name(name) else None) or name
    grave = os.path.join(ctx.home.graveyard, agent_id)
    if not isinstance(error, NotFound) or not names.is_id(agent_id):
        return None
    try:
        meta = saved_directory.load(grave)
        if not meta.get("leaving") or is_leaving(ctx, meta):
            return None
    except (ValueError, MngrError):
        return None
    settle_grave(ctx, grave, meta)
    store.release_name(ctx.home, str(meta["name"]), agent_id)
    return Outcome(id=agent_id, name=str(meta["name"]), extra={"grave": grave})


def bury(host: Host, directory: str, place: str) -> None:
    """Move an agent's own files: the last act, after which it is no longer there."""
    if os.path.lexists(place):
        host.run(["rm", "-rf", "--", place])
    try:
        os.rename(directory, place)
    except OSError:  # another file system
        moved = host.run(["mv", "--", directory, place])
        if moved.code:
            raise MngrError(
                f"cannot move {directory} to the graveyard: {moved.problem}", "check space and permissions"
            ) from None


def _outcome(record: AgentRecord, meta: dict[str, Any], kept: int, grave: str) -> Outcome:
    name, notes = record.name, []
    if meta["dirty"]:
        notes.append(f"{name} had uncommitted work, saved with the rest: mngr undestroy {name}")
    if kept:
        notes.append(f"the branch {record.branch} stays: it holds {_commits(kept)} that no other branch has")
    elif meta["unpulled"]:
        what = _commits(meta["unpulled"])
        notes.append(
            f"{name} had {what} that no other branch has, saved with the rest: mngr undestroy {name}"
        )
    if meta["ignored_bytes"]:
        notes.append(f"{name} had {size(meta['ignored_bytes'])} of ignored files, which are not kept")
    extra = {
        "dirty": meta["dirty"],
        "unpulled": meta["unpulled"],
        "branch_kept": record.branch if kept else None,
        "ignored_bytes": meta["ignored_bytes"],
        "grave": grave,
    }
    return Outcome(id=record.id, name=name, extra=extra, notes=tuple(notes))


def _commits(count: int) -> str:
    return "1 commit" if count == 1 else f"{count} commits"


def size(count: int) -> str:
    """Bytes as people read them."""
    amount = float(count)
    for unit in ("bytes", "KB", "MB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"


def _bury_damaged(ctx: Context, seen: Seen) -> Outcome:
    """Without a record nobody knows what is the agent's: its files are put away, all else is named and left."""
    host, agent_id = seen.host, seen.id
    directory, grave = host.home.agent(agent_id), os.path.join(ctx.home.graveyard, agent_id)
    work = _work_dir_of(host, directory)
    meta: dict[str, Any] = {
        "v": 1,
        "id": agent_id,
        "name": agent_id,
        "at": clock.stamp(),
        "why": "destroy",
        "record": None,
        "saved": "none",
    }
    meta.update(dirty=False, unpulled=0, ignored_bytes=0, damage=seen.damage, work_dir=work)
    with stage.Stage(ctx) as here:
        if not host.is_here:
            stage.bring_files(host, agent_id, here)
            directory = here.host.home.agent(agent_id)
        os.makedirs(grave, mode=0o700, exist_ok=True)
        saved_directory.write_meta(ctx.local, grave, meta)
        bury(ctx.local, directory, os.path.join(grave, saved_directory.AGENT))
    if not host.is_here:
        _take_away(host, agent_id, "", "")
    for name in store.list_names(ctx.home):
        store.release_name(ctx.home, name, agent_id, host)
    notes = (f"its work dir was not touched: {work}",) if work else ()
    extra = {"dirty": None, "unpulled": None, "branch_kept": None, "ignored_bytes": None, "grave": grave}
    return Outcome(id=agent_id, name=agent_id, extra=extra, notes=notes)


def _work_dir_of(host: Host, directory: str) -> str | None:
    """What the agent's own variables say."""
    try:
        text = host.read(os.path.join(directory, "env")).decode("utf-8", "replace")
    except MngrError:
        return None
    found = text.rpartition("\nexport MNGR_WORK_DIR=")[2].partition("\n")[0].strip("'")
    return found if found and host.has(found) else None
