"""`gc`: finish what was interrupted, and clean up what is too old. What is not surely ours is named, never removed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from mngr.agents import saved_directory
from mngr.agents.archive import host_snapshots
from mngr.agents.archive.destroy import confirm_removed, is_still_on_host, move_to_trash
from mngr.agents.archive.gc import hosts, remote_homes
from mngr.agents.archive.gc.tasks import (
    MAX_CACHE_SECONDS,
    MIN_AGE_SECONDS,
    CleanupTask,
    HostSurvey,
    survey_hosts,
)
from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.inspect.trash import TrashedAgent, get_keep_seconds, list_trash
from mngr.agents.saved import save as saving
from mngr.agents.saved.save import remove_saved_directory
from mngr.agents.saved.staging import remove_tree
from mngr.agents.workdir.discard import RESTORING_FILE, discard_agent
from mngr.base import clock, names
from mngr.base.errors import MngrError, TimedOut
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord, Outcome
from mngr.host import git, registry, store, tmux
from mngr.host.protocol import Host


def collect_garbage(ctx: Context, *, dry_run: bool = False) -> list[Outcome]:
    """Clean up; an outcome per thing found."""
    if not ctx.home.exists():
        return []
    finders = (
        _list_interrupted_agents, _list_stale_names, _list_interrupted_destroys, remote_homes.list_remote_tasks, _list_stray_sessions, _list_expired_trash, _list_interrupted_saves, _list_unused_setups, _list_unused_repos, _list_old_image_facts,
        _list_unknown_work_dirs, hosts.list_leftover_hosts, hosts.list_old_host_facts,
    )  # fmt: skip
    with Lock(os.path.join(ctx.home.cache, "gc.lock")):
        world = survey_hosts(ctx)
        outcomes = [_run_task(task, dry_run) for task in hosts.list_unreachable_hosts(world)]
        for find in finders:
            for task in find(ctx, world):
                outcomes.append(_run_task(task, dry_run))
        return outcomes


def _run_task(task: CleanupTask, dry_run: bool) -> Outcome:
    action = task.action if task.run is None else "would clean" if dry_run else "cleaned"
    error: MngrError | None = None
    if task.run is not None and not dry_run:
        try:
            task.run()
        except MngrError as problem:
            error = problem
    return Outcome(
        id=task.id,
        name=task.name,
        ok=error is None,
        error=error.message if error else None,
        hint=error.hint if error else None,
        exit_code=error.exit_code if error else 0,
        extra={"what": task.category, "action": "failed" if error else action},
        notes=(task.note,) if task.note else (),
    )


def _list_interrupted_agents(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """Agents whose making or destroying was interrupted."""
    found = []
    for host, agents in world.agents_by_host:
        for seen in agents:
            record = seen.record
            if record is None:
                if host.is_local and _is_unfinished_agent_dir(host.home.agent_dir(seen.id)):
                    found.append(
                        _make_removal_task("interrupted create", seen.id, ctx, host.home.agent_dir(seen.id), seen.id)
                    )
            elif record.phase == "creating" and not seen.evidence.is_owner_alive:
                found.append(
                    CleanupTask(
                        category="interrupted create",
                        name=record.name,
                        id=record.id,
                        run=_make_create_undo(ctx, seen, record),
                    )
                )
            elif record.phase == "destroying" and not seen.evidence.is_owner_alive:
                found.append(
                    CleanupTask(
                        category="interrupted destroy",
                        name=record.name,
                        id=record.id,
                        run=_make_trash_action(ctx, seen),
                    )
                )
    return found


def _make_create_undo(ctx: Context, seen: ObservedAgent, record: AgentRecord) -> Callable[[], None]:
    """Take away what was half made; an agent that already ran may have worked, so it goes to the graveyard first."""
    has_run = seen.evidence.pid is not None or seen.evidence.exit is not None
    if has_run and not os.path.exists(os.path.join(ctx.home.trash, record.id)):
        return _make_trash_action(ctx, seen)
    host = seen.host
    return lambda: discard_agent(
        ctx, host, record if _is_branch_ours(host, record) else record.replace(branch_is_new=False)
    )


def _make_trash_action(ctx: Context, seen: ObservedAgent) -> Callable[[], None]:
    def act() -> None:
        outcome = move_to_trash(ctx, [seen])[0]
        if not outcome.ok:
            raise MngrError(outcome.error or "failed", outcome.hint)

    return act


def _is_branch_ours(host: Host, record: AgentRecord) -> bool:
    """Whether the branch is younger than the agent: one that was there before is the user's."""
    if (
        record.transfer != "worktree"
        or not record.branch_is_new
        or not record.source
        or not host.has_path(record.source)
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
    return first.isdigit() and int(first) >= int(clock.parse_timestamp(record.created_at))


def _is_unfinished_agent_dir(directory: str) -> bool:
    """Whether there is nothing but what `create` makes before it writes the record, and that some time ago."""
    if time.time() - os.stat(directory).st_mtime < MIN_AGE_SECONDS:
        return False
    made = ("lock", RESTORING_FILE)
    return all(n.endswith(".new") or n in made for _, _, files in os.walk(directory) for n in files)


def _make_removal_task(what: str, name: str, ctx: Context, path: str, agent_id: str | None = None) -> CleanupTask:
    def act() -> None:
        remove_tree(ctx.local_host, path)
        if os.path.lexists(path):
            raise MngrError(f"cannot remove {path}", "check permissions")

    return CleanupTask(category=what, name=name, id=agent_id, run=act)


def _list_stale_names(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """Names of agents that are no longer there."""
    found = []
    for name in store.list_names(ctx.home):
        holder = store.find_id(ctx.home, name)
        if holder is not None and store.is_on_other_host(ctx.home, name):
            if world.is_agent_missing(ctx, name, holder):
                found.append(
                    CleanupTask(
                        category="dangling name",
                        name=name,
                        id=holder,
                        run=_make_name_release(ctx, name, holder),
                    )
                )
            elif world.is_agent_renamed(ctx, name, holder):
                found.append(
                    CleanupTask(category="old name", name=name, id=holder, run=_make_name_release(ctx, name, holder))
                )
        elif holder is not None and not os.path.isdir(ctx.home.agent_dir(holder)):
            found.append(
                CleanupTask(category="dangling name", name=name, id=holder, run=_make_name_release(ctx, name, holder))
            )
        elif holder is not None and _is_old_name(ctx, name, holder):
            found.append(
                CleanupTask(category="old name", name=name, id=holder, run=_make_name_release(ctx, name, holder))
            )
    return found


def _is_old_name(ctx: Context, name: str, holder: str) -> bool:
    """Whether a rename was interrupted and left this name behind; a rename under way holds the lock."""
    directory = ctx.home.agent_dir(holder)
    if not os.path.isdir(directory):
        return False
    try:
        with Lock(os.path.join(directory, "lock"), timeout=5.0):
            return store.get_record(ctx.local_host, holder).name != name
    except MngrError:
        return False


def _make_name_release(ctx: Context, name: str, holder: str) -> Callable[[], None]:
    return lambda: store.release_name(ctx.home, name, holder)


def _list_stray_sessions(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """Sessions of our tmux server here whose agent is no longer there."""
    found = []
    for host, _ in world.agents_by_host:
        if not host.is_local or not os.path.exists(host.tmux_socket):
            continue
        listed = host.run(tmux.build_argv(host, "list-sessions", "-F", "#{session_id} #{@mngr_id} #{session_name}"))
        for row in listed.text.split("\n"):
            session, agent_id, name = [*row.split(" ", 2), "", "", ""][:3]
            if names.is_agent_id(agent_id) and not host.has_path(host.home.agent_dir(agent_id)):
                found.append(
                    CleanupTask(
                        category="stray session",
                        name=name,
                        id=agent_id,
                        run=_make_session_kill(host, session),
                    )
                )
    return found


def _make_session_kill(host: Host, session: str) -> Callable[[], None]:
    def act() -> None:
        host.run(tmux.build_argv(host, "kill-session", "-t", session))

    return act


def _list_interrupted_destroys(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """Graves of agents that were still on their host when the connection ended, and are gone from there by now."""
    looked = {(host.provider, host.name) for host, _ in world.agents_by_host}
    return [
        CleanupTask(category="interrupted destroy", name=g.name, id=g.id, run=_make_removal_confirmation(ctx, g))
        for g in list_trash(ctx)
        if g.meta.get("leaving") and (g.provider, g.host) in looked and g.id not in world.agent_ids
    ]


def _make_removal_confirmation(ctx: Context, grave: TrashedAgent) -> Callable[[], None]:
    def act() -> None:
        if not is_still_on_host(ctx, grave.meta):
            confirm_removed(ctx, grave.place, grave.meta)
            store.release_name(ctx.home, grave.name, grave.id)

    return act


def _list_expired_trash(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """Graves that are older than `graveyard.keep`."""
    limit = clock.format_timestamp(time.time() - get_keep_seconds(ctx))
    old = [
        g
        for g in list_trash(ctx)
        if g.destroyed_at < limit
        and g.id not in world.agent_ids
        and (g.provider, g.host) not in world.errors
        and not g.meta.get("leaving")
    ]
    return [CleanupTask(category="old grave", name=g.name, id=g.id, run=_make_saved_removal(ctx, g.place)) for g in old]


def _make_saved_removal(ctx: Context, place: str) -> Callable[[], None]:
    return lambda: remove_saved_directory(ctx, place)


def _list_interrupted_saves(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """What an interrupted save, or a copy of an agent of another host, left."""
    found = []
    staging = os.path.join(ctx.home.cache, "stage")
    for folder in (ctx.home.trash, ctx.home.snapshots, staging, ctx.home.agents):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            path = os.path.join(folder, name)
            is_part = (
                name.endswith(saved_directory.PARTIAL_SUFFIX)
                or name.startswith((".clone-", store.INCOMPLETE_PREFIX))
                or folder == staging
            )
            if is_part and not _is_in_use(path):
                task = _make_removal_task("interrupted save", name, ctx, path)
                found.append(task.replace(run=_make_snapshot_undo(ctx, path, task.run)))
    return found


def _make_snapshot_undo(ctx: Context, path: str, act: Callable[[], None] | None) -> Callable[[], None]:
    def both() -> None:
        host_snapshots.undo_partial_snapshot(ctx, path)
        if act is not None:
            act()

    return both


def _is_in_use(path: str) -> bool:
    """Whether the process that writes here still lives, or may just have begun."""
    try:
        with open(os.path.join(path, saving.OWNER_FILE), encoding="utf-8") as file:
            return store.is_owner_alive(json.load(file))
    except (OSError, ValueError):
        return time.time() - os.lstat(path).st_mtime < MIN_AGE_SECONDS


def _list_unused_setups(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """Results of set-ups that nobody has used for long, and half-written ones."""
    folder = os.path.join(ctx.home.cache, "setup")
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        key, _, process = name.partition(".")
        if not os.path.isdir(path) or time.time() - os.stat(path).st_mtime < (
            MIN_AGE_SECONDS if process else MAX_CACHE_SECONDS
        ):
            continue
        if process.isdigit() and os.path.exists(f"/proc/{process}"):
            continue
        lock = os.path.join(folder, key + ".lock")
        found.append(CleanupTask(category="unused set-up", name=key, run=_make_locked_removal(ctx, lock, path)))
    return found


def _make_locked_removal(ctx: Context, lock: str, path: str) -> Callable[[], None]:
    def act() -> None:
        try:
            with Lock(lock, timeout=0.0):
                ctx.local_host.run(["rm", "-rf", "--", path])
        except TimedOut:
            raise MngrError(f"{path} is in use", "try again later") from None

    return act


def _list_unused_repos(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """Copies of remote repositories that no agent, grave or snapshot was made from and nobody has used for long."""
    folder = os.path.join(ctx.home.cache, "repos")
    old = [
        name
        for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else ())
        if name.endswith(".git") and time.time() - os.stat(os.path.join(folder, name)).st_mtime > MAX_CACHE_SECONDS
    ]
    if not old or world.errors:  # an agent that cannot be seen may need it
        return []
    used = {seen.record.source for _, agents in world.agents_by_host for seen in agents if seen.record}
    for kept in (ctx.home.trash, ctx.home.snapshots):
        for name in os.listdir(kept) if os.path.isdir(kept) else ():
            try:
                used.add((saved_directory.load_meta(os.path.join(kept, name)).get("record") or {}).get("source"))
            except ValueError:
                return []
    paths = [os.path.join(folder, name) for name in old]
    return [
        CleanupTask(
            category="unused repository",
            name=os.path.basename(path),
            run=_make_locked_removal(ctx, path + ".lock", path),
        )
        for path in paths
        if path not in used
    ]


def _list_old_image_facts(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """What is known of hosts of an image, which may be gone by now: after a while a host of it is asked again."""
    folder = ctx.home.cache
    return [
        _make_removal_task("what was known of an image", name, ctx, os.path.join(folder, name))
        for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else ())
        if name.startswith(registry.IMAGE_CACHE_PREFIX)
        and time.time() - os.stat(os.path.join(folder, name)).st_mtime > MAX_CACHE_SECONDS
    ]


def _list_unknown_work_dirs(ctx: Context, world: HostSurvey) -> list[CleanupTask]:
    """Directories among the work dirs that no agent has: somebody's, perhaps."""
    found = []
    for host, _ in world.agents_by_host:
        if not host.is_local or not os.path.isdir(host.home.work_dirs) or not os.listdir(host.home.work_dirs):
            continue
        known = {os.path.basename(s.record.work_dir) for s in listing.observe_host(ctx, host) if s.record}
        for name in sorted(os.listdir(host.home.work_dirs)):
            if name not in known:
                path = os.path.join(host.home.work_dirs, name)
                note = f"{path} belongs to no agent and was left; if you do not need it: rm -r {path}"
                found.append(CleanupTask(category="unknown directory", name=path, note=note))
    return found
