"""`gc`: finish what was interrupted, and clean up what is too old. What is not surely ours is named, never removed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from mngr.agents import saved_directory
from mngr.agents.archive import host_snapshots
from mngr.agents.archive.destroy import is_leaving, put_away, settle_grave
from mngr.agents.archive.gc import hosts, sweep
from mngr.agents.archive.gc.tasks import CACHE_TIME, YOUNG, Task, World, look_around
from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import Seen
from mngr.agents.inspect.trash import Grave, keep_time, list_graves
from mngr.agents.saved import save as saving
from mngr.agents.saved.save import remove_saved
from mngr.agents.saved.stage import remove
from mngr.agents.workdir.discard import RESTORING, discard
from mngr.base import clock, names
from mngr.base.errors import MngrError, TimedOut
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord, Outcome
from mngr.host import git, registry, store, tmux
from mngr.host.protocol import Host


def gc(ctx: Context, *, dry_run: bool = False) -> list[Outcome]:
    """Clean up; an outcome per thing found."""
    if not ctx.home.exists():
        return []
    finders = (
        _agents, _names, _leaving, sweep.sweep, _sessions, _graves, _parts, _setups, _repos, _alike,
        _strangers, hosts.leftovers, hosts.memories,
    )  # fmt: skip
    with Lock(os.path.join(ctx.home.cache, "gc.lock")):
        world = look_around(ctx)
        outcomes = [_do(task, dry_run) for task in hosts.silent(world)]
        for find in finders:
            for task in find(ctx, world):
                outcomes.append(_do(task, dry_run))
        return outcomes


def _do(task: Task, dry_run: bool) -> Outcome:
    action = task.action if task.act is None else "would clean" if dry_run else "cleaned"
    error: MngrError | None = None
    if task.act is not None and not dry_run:
        try:
            task.act()
        except MngrError as problem:
            error = problem
    return Outcome(
        id=task.id,
        name=task.name,
        ok=error is None,
        error=error.message if error else None,
        hint=error.hint if error else None,
        exit_code=error.exit_code if error else 0,
        extra={"what": task.what, "action": "failed" if error else action},
        notes=(task.note,) if task.note else (),
    )


def _agents(ctx: Context, world: World) -> list[Task]:
    """Agents whose making or destroying was interrupted."""
    found = []
    for host, agents in world.answers:
        for seen in agents:
            record = seen.record
            if record is None:
                if host.is_here and _is_empty(host.home.agent(seen.id)):
                    found.append(
                        _removal("interrupted create", seen.id, ctx, host.home.agent(seen.id), seen.id)
                    )
            elif record.phase == "creating" and not seen.evidence.owner_alive:
                found.append(
                    Task(
                        what="interrupted create",
                        name=record.name,
                        id=record.id,
                        act=_undo(ctx, seen, record),
                    )
                )
            elif record.phase == "destroying" and not seen.evidence.owner_alive:
                found.append(
                    Task(what="interrupted destroy", name=record.name, id=record.id, act=_put_away(ctx, seen))
                )
    return found


def _undo(ctx: Context, seen: Seen, record: AgentRecord) -> Callable[[], None]:
    """Take away what was half made; an agent that already ran may have worked, so it goes to the graveyard first."""
    has_run = seen.evidence.pid is not None or seen.evidence.exit is not None
    if has_run and not os.path.exists(os.path.join(ctx.home.graveyard, record.id)):
        return _put_away(ctx, seen)
    host = seen.host
    return lambda: discard(
        ctx, host, record if _made_branch(host, record) else record.replace(branch_is_new=False)
    )


def _put_away(ctx: Context, seen: Seen) -> Callable[[], None]:
    def act() -> None:
        outcome = put_away(ctx, [seen])[0]
        if not outcome.ok:
            raise MngrError(outcome.error or "failed", outcome.hint)

    return act


def _made_branch(host: Host, record: AgentRecord) -> bool:
    """Whether the branch is younger than the agent: one that was there before is the user's."""
    if (
        record.transfer != "worktree"
        or not record.branch_is_new
        or not record.source
        or not host.has(record.source)
    ):
        return record.branch_is_new
    said = git.run(
        host,
        record.source,
        "log",
        "--walk-reflogs",
        "--format=%gd",
        "--date=unix",
        f"refs/heads/{record.branch}",
        "--",
    )
    first = said.text.split("\n")[-1].rpartition("@{")[2].rstrip("}")
    return first.isdigit() and int(first) >= int(clock.parse_stamp(record.created_at))


def _is_empty(directory: str) -> bool:
    """Whether there is nothing but what `create` makes before it writes the record, and that some time ago."""
    if time.time() - os.stat(directory).st_mtime < YOUNG:
        return False
    made = ("lock", RESTORING)
    return all(n.endswith(".new") or n in made for _, _, files in os.walk(directory) for n in files)


def _removal(what: str, name: str, ctx: Context, path: str, agent_id: str | None = None) -> Task:
    def act() -> None:
        remove(ctx.local, path)
        if os.path.lexists(path):
            raise MngrError(f"cannot remove {path}", "check permissions")

    return Task(what=what, name=name, id=agent_id, act=act)


def _names(ctx: Context, world: World) -> list[Task]:
    """Names of agents that are no longer there."""
    found = []
    for name in store.list_names(ctx.home):
        holder = store.find_id(ctx.home, name)
        if holder is not None and store.is_elsewhere(ctx.home, name):
            if world.has_lost(ctx, name, holder):
                found.append(
                    Task(what="dangling name", name=name, id=holder, act=_release(ctx, name, holder))
                )
            elif world.has_renamed(ctx, name, holder):
                found.append(Task(what="old name", name=name, id=holder, act=_release(ctx, name, holder)))
        elif holder is not None and not os.path.isdir(ctx.home.agent(holder)):
            found.append(Task(what="dangling name", name=name, id=holder, act=_release(ctx, name, holder)))
        elif holder is not None and _is_old_name(ctx, name, holder):
            found.append(Task(what="old name", name=name, id=holder, act=_release(ctx, name, holder)))
    return found


def _is_old_name(ctx: Context, name: str, holder: str) -> bool:
    """Whether a rename was interrupted and left this name behind; a rename under way holds the lock."""
    directory = ctx.home.agent(holder)
    if not os.path.isdir(directory):
        return False
    try:
        with Lock(os.path.join(directory, "lock"), timeout=5.0):
            return store.load(ctx.local, holder).name != name
    except MngrError:
        return False


def _release(ctx: Context, name: str, holder: str) -> Callable[[], None]:
    return lambda: store.release_name(ctx.home, name, holder)


def _sessions(ctx: Context, world: World) -> list[Task]:
    """Sessions of our tmux server here whose agent is no longer there."""
    found = []
    for host, _ in world.answers:
        if not host.is_here or not os.path.exists(host.socket):
            continue
        listed = host.run(tmux.argv(host, "list-sessions", "-F", "#{session_id} #{@mngr_id} #{session_name}"))
        for row in listed.text.split("\n"):
            session, agent_id, name = [*row.split(" ", 2), "", "", ""][:3]
            if names.is_id(agent_id) and not host.has(host.home.agent(agent_id)):
                found.append(Task(what="stray session", name=name, id=agent_id, act=_kill(host, session)))
    return found


def _kill(host: Host, session: str) -> Callable[[], None]:
    def act() -> None:
        host.run(tmux.argv(host, "kill-session", "-t", session))

    return act


def _leaving(ctx: Context, world: World) -> list[Task]:
    """Graves of agents that were still on their host when the connection ended, and are gone from there by now."""
    looked = {(host.provider, host.name) for host, _ in world.answers}
    return [
        Task(what="interrupted destroy", name=g.name, id=g.id, act=_settle(ctx, g))
        for g in list_graves(ctx)
        if g.meta.get("leaving") and (g.provider, g.host) in looked and g.id not in world.ids
    ]


def _settle(ctx: Context, grave: Grave) -> Callable[[], None]:
    def act() -> None:
        if not is_leaving(ctx, grave.meta):
            settle_grave(ctx, grave.place, grave.meta)
            store.release_name(ctx.home, grave.name, grave.id)

    return act


def _graves(ctx: Context, world: World) -> list[Task]:
    """Graves that are older than `graveyard.keep`."""
    limit = clock.stamp(time.time() - keep_time(ctx))
    old = [
        g
        for g in list_graves(ctx)
        if g.destroyed_at < limit
        and g.id not in world.ids
        and (g.provider, g.host) not in world.errors
        and not g.meta.get("leaving")
    ]
    return [Task(what="old grave", name=g.name, id=g.id, act=_forget(ctx, g.place)) for g in old]


def _forget(ctx: Context, place: str) -> Callable[[], None]:
    return lambda: remove_saved(ctx, place)


def _parts(ctx: Context, world: World) -> list[Task]:
    """What an interrupted save, or a copy of an agent of another host, left."""
    found = []
    staging = os.path.join(ctx.home.cache, "stage")
    for folder in (ctx.home.graveyard, ctx.home.snapshots, staging, ctx.home.agents):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            path = os.path.join(folder, name)
            is_part = (
                name.endswith(saved_directory.PART)
                or name.startswith((".clone-", store.HALF))
                or folder == staging
            )
            if is_part and not _is_owned(path):
                task = _removal("interrupted save", name, ctx, path)
                found.append(task.replace(act=_undo_snapshot(ctx, path, task.act)))
    return found


def _undo_snapshot(ctx: Context, path: str, act: Callable[[], None] | None) -> Callable[[], None]:
    def both() -> None:
        host_snapshots.undo(ctx, path)
        if act is not None:
            act()

    return both


def _is_owned(path: str) -> bool:
    """Whether the process that writes here still lives, or may just have begun."""
    try:
        with open(os.path.join(path, saving.OWNER), encoding="utf-8") as file:
            return store.is_alive(json.load(file))
    except (OSError, ValueError):
        return time.time() - os.lstat(path).st_mtime < YOUNG


def _setups(ctx: Context, world: World) -> list[Task]:
    """Results of set-ups that nobody has used for long, and half-written ones."""
    folder = os.path.join(ctx.home.cache, "setup")
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        key, _, process = name.partition(".")
        if not os.path.isdir(path) or time.time() - os.stat(path).st_mtime < (
            YOUNG if process else CACHE_TIME
        ):
            continue
        if process.isdigit() and os.path.exists(f"/proc/{process}"):
            continue
        lock = os.path.join(folder, key + ".lock")
        found.append(Task(what="unused set-up", name=key, act=_drop(ctx, lock, path)))
    return found


def _drop(ctx: Context, lock: str, path: str) -> Callable[[], None]:
    def act() -> None:
        try:
            with Lock(lock, timeout=0.0):
                ctx.local.run(["rm", "-rf", "--", path])
        except TimedOut:
            raise MngrError(f"{path} is in use", "try again later") from None

    return act


def _repos(ctx: Context, world: World) -> list[Task]:
    """Copies of remote repositories that no agent, grave or snapshot was made from and nobody has used for long."""
    folder = os.path.join(ctx.home.cache, "repos")
    old = [
        name
        for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else ())
        if name.endswith(".git") and time.time() - os.stat(os.path.join(folder, name)).st_mtime > CACHE_TIME
    ]
    if not old or world.errors:  # an agent that cannot be seen may need it
        return []
    used = {seen.record.source for _, agents in world.answers for seen in agents if seen.record}
    for kept in (ctx.home.graveyard, ctx.home.snapshots):
        for name in os.listdir(kept) if os.path.isdir(kept) else ():
            try:
                used.add((saved_directory.load(os.path.join(kept, name)).get("record") or {}).get("source"))
            except ValueError:
                return []
    paths = [os.path.join(folder, name) for name in old]
    return [
        Task(what="unused repository", name=os.path.basename(path), act=_drop(ctx, path + ".lock", path))
        for path in paths
        if path not in used
    ]


def _alike(ctx: Context, world: World) -> list[Task]:
    """What is known of hosts of an image, which may be gone by now: after a while a host of it is asked again."""
    folder = ctx.home.cache
    return [
        _removal("what was known of an image", name, ctx, os.path.join(folder, name))
        for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else ())
        if name.startswith(registry.ALIKE)
        and time.time() - os.stat(os.path.join(folder, name)).st_mtime > CACHE_TIME
    ]


def _strangers(ctx: Context, world: World) -> list[Task]:
    """Directories among the work dirs that no agent has: somebody's, perhaps."""
    found = []
    for host, _ in world.answers:
        if not host.is_here or not os.path.isdir(host.home.work) or not os.listdir(host.home.work):
            continue
        known = {os.path.basename(s.record.work_dir) for s in listing.look(ctx, host) if s.record}
        for name in sorted(os.listdir(host.home.work)):
            if name not in known:
                path = os.path.join(host.home.work, name)
                note = f"{path} belongs to no agent and was left; if you do not need it: rm -r {path}"
                found.append(Task(what="unknown directory", name=path, note=note))
    return found
