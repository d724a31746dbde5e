"""`gc`: finishes interrupted commands and removes what is too old.

Anything that may not belong to mngr is reported, never removed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from mngr.agents import saved_directory
from mngr.agents.archive import host_snapshots
from mngr.agents.archive.destroy import confirm_removed, is_still_on_host, move_to_trash
from mngr.agents.archive.gc import hosts, mngr_homes_on_hosts, unused_caches
from mngr.agents.archive.gc.cleanup_items import (
    MIN_AGE_SECONDS,
    CleanupTask,
    HostSurvey,
    make_removal_task,
    survey_hosts,
)
from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.inspect.trash import TrashedAgent, get_keep_seconds, list_trash
from mngr.agents.saved import save as saving
from mngr.agents.saved.save import remove_saved_directory
from mngr.agents.workdir.discard_agent import RESTORING_FILE, discard_agent
from mngr.base import names_and_addresses, time_format
from mngr.base.errors import MngrError
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord, Outcome
from mngr.host import git, record_store, tmux_server
from mngr.host.protocol import Host


def collect_garbage(ctx: Context, *, dry_run: bool = False) -> list[Outcome]:
    """Clean up everything that `gc` finds, or only report it with `dry_run`. Return an outcome for each item."""
    if not ctx.home.exists():
        return []
    finders = (
        _list_interrupted_agents,
        _list_stale_names,
        _list_interrupted_destroys,
        mngr_homes_on_hosts.list_remote_tasks,
        _list_stray_sessions,
        _list_expired_trash,
        _list_interrupted_saves,
        *unused_caches.FINDERS,
        _list_unknown_work_dirs,
        hosts.list_leftover_hosts,
        hosts.list_old_host_facts,
    )
    with Lock(os.path.join(ctx.home.cache, "gc.lock")):
        survey = survey_hosts(ctx)
        outcomes = [_run_task(task, dry_run) for task in hosts.list_unreachable_hosts(survey)]
        for list_tasks in finders:
            for task in list_tasks(ctx, survey):
                outcomes.append(_run_task(task, dry_run))
        return outcomes


def _run_task(task: CleanupTask, dry_run: bool) -> Outcome:
    """Run a cleanup task, unless this is a dry run, and return its outcome."""
    action = task.action
    if task.run is not None:
        action = "would clean" if dry_run else "cleaned"
    error: MngrError | None = None
    if task.run is not None and not dry_run:
        try:
            task.run()
        except MngrError as caught:
            error = caught
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


def _list_interrupted_agents(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for agents whose create or destroy was interrupted."""
    tasks = []
    for host, agents in survey.agents_by_host:
        for agent in agents:
            record = agent.record
            if record is None:
                if host.is_local and _is_unfinished_agent_dir(host.home.agent_dir(agent.id)):
                    tasks.append(
                        make_removal_task("interrupted create", agent.id, ctx, host.home.agent_dir(agent.id), agent.id)
                    )
            elif record.phase == "creating" and not agent.evidence.is_owner_alive:
                tasks.append(
                    CleanupTask(
                        category="interrupted create",
                        name=record.name,
                        id=record.id,
                        run=_make_create_undo(ctx, agent, record),
                    )
                )
            elif record.phase == "destroying" and not agent.evidence.is_owner_alive:
                tasks.append(
                    CleanupTask(
                        category="interrupted destroy",
                        name=record.name,
                        id=record.id,
                        run=_make_trash_action(ctx, agent),
                    )
                )
    return tasks


def _make_create_undo(ctx: Context, agent: ObservedAgent, record: AgentRecord) -> Callable[[], None]:
    """Return a function that removes a half-created agent.

    An agent that already ran may have done work, so it goes to the trash instead.
    """
    has_run = agent.evidence.pid is not None or agent.evidence.exit is not None
    if has_run and not os.path.exists(os.path.join(ctx.home.trash, record.id)):
        return _make_trash_action(ctx, agent)
    host = agent.host
    return lambda: discard_agent(
        ctx, host, record if _is_branch_ours(host, record) else record.replace(branch_is_new=False)
    )


def _make_trash_action(ctx: Context, agent: ObservedAgent) -> Callable[[], None]:
    """Return a function that moves the agent to the trash."""

    def act() -> None:
        outcome = move_to_trash(ctx, [agent])[0]
        if not outcome.ok:
            raise MngrError(outcome.error or "the cleanup failed", outcome.hint)

    return act


def _is_branch_ours(host: Host, record: AgentRecord) -> bool:
    """True when the agent created its branch. A branch that is older than the agent is the user's."""
    if (
        record.transfer != "worktree"
        or not record.branch_is_new
        or not record.source
        or not host.has_path(record.source)
    ):
        return record.branch_is_new
    reflog = git.run(
        host,
        record.source,
        "log",
        "--walk-reflogs",
        "--format=%gd",
        "--date=unix",
        f"refs/heads/{record.branch}",
        "--",
        git_command=git.SAFE_GIT,
    )
    created_at = reflog.text.split("\n")[-1].rpartition("@{")[2].rstrip("}")
    return created_at.isdigit() and int(created_at) >= int(time_format.parse_timestamp(record.created_at))


def _is_unfinished_agent_dir(directory: str) -> bool:
    """True when the directory is not new and holds only files that `create` writes before the record."""
    if time.time() - os.stat(directory).st_mtime < MIN_AGE_SECONDS:
        return False
    early_files = ("lock", RESTORING_FILE)
    return all(name.endswith(".new") or name in early_files for _, _, files in os.walk(directory) for name in files)


def _list_stale_names(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for names whose agent no longer exists or has another name."""
    tasks = []
    for name in record_store.list_names(ctx.home):
        holder_id = record_store.find_id(ctx.home, name)
        if holder_id is not None and record_store.is_on_other_host(ctx.home, name):
            if survey.is_agent_missing(ctx, name, holder_id):
                tasks.append(
                    CleanupTask(
                        category="dangling name",
                        name=name,
                        id=holder_id,
                        run=_make_name_release(ctx, name, holder_id),
                    )
                )
            elif survey.is_agent_renamed(ctx, name, holder_id):
                tasks.append(
                    CleanupTask(
                        category="old name", name=name, id=holder_id, run=_make_name_release(ctx, name, holder_id)
                    )
                )
        elif holder_id is not None and not os.path.isdir(ctx.home.agent_dir(holder_id)):
            tasks.append(
                CleanupTask(
                    category="dangling name", name=name, id=holder_id, run=_make_name_release(ctx, name, holder_id)
                )
            )
        elif holder_id is not None and _is_old_name(ctx, name, holder_id):
            tasks.append(
                CleanupTask(category="old name", name=name, id=holder_id, run=_make_name_release(ctx, name, holder_id))
            )
    return tasks


def _is_old_name(ctx: Context, name: str, holder_id: str) -> bool:
    """True when an interrupted rename left this name. The lock keeps out a rename that is still running."""
    directory = ctx.home.agent_dir(holder_id)
    if not os.path.isdir(directory):
        return False
    try:
        with Lock(os.path.join(directory, "lock"), timeout=5.0):
            return record_store.get_record(ctx.local_host, holder_id).name != name
    except MngrError:
        return False


def _make_name_release(ctx: Context, name: str, holder_id: str) -> Callable[[], None]:
    """Return a function that releases the name."""
    return lambda: record_store.release_name(ctx.home, name, holder_id)


def _list_stray_sessions(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for sessions of the local mngr tmux server whose agent no longer exists."""
    tasks = []
    for host, _ in survey.agents_by_host:
        if not host.is_local or not os.path.exists(host.tmux_socket):
            continue
        sessions = host.run(
            tmux_server.build_argv(host, "list-sessions", "-F", "#{session_id} #{@mngr_id} #{session_name}")
        )
        for row in sessions.text.split("\n"):
            session, agent_id, name = [*row.split(" ", 2), "", "", ""][:3]
            if names_and_addresses.is_agent_id(agent_id) and not host.has_path(host.home.agent_dir(agent_id)):
                tasks.append(
                    CleanupTask(
                        category="stray session",
                        name=name,
                        id=agent_id,
                        run=_make_session_kill(host, session),
                    )
                )
    return tasks


def _make_session_kill(host: Host, session: str) -> Callable[[], None]:
    """Return a function that kills the tmux session."""

    def act() -> None:
        host.run(tmux_server.build_argv(host, "kill-session", "-t", session))

    return act


def _list_interrupted_destroys(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for trashed agents whose removal was not confirmed but that are gone from their host."""
    surveyed = {(host.provider, host.name) for host, _ in survey.agents_by_host}
    return [
        CleanupTask(
            category="interrupted destroy",
            name=trashed.name,
            id=trashed.id,
            run=_make_removal_confirmation(ctx, trashed),
        )
        for trashed in list_trash(ctx)
        if trashed.saved.leaving and (trashed.provider, trashed.host) in surveyed and trashed.id not in survey.agent_ids
    ]


def _make_removal_confirmation(ctx: Context, trashed: TrashedAgent) -> Callable[[], None]:
    """Return a function that confirms in the trash that the host no longer has the agent."""

    def act() -> None:
        if not is_still_on_host(ctx, trashed.saved):
            confirm_removed(ctx, trashed.trash_dir, trashed.saved)
            record_store.release_name(ctx.home, trashed.name, trashed.id)

    return act


def _list_expired_trash(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for trashed agents that are older than the setting `trash.keep`."""
    limit = time_format.format_timestamp(time.time() - get_keep_seconds(ctx))
    expired = [
        trashed
        for trashed in list_trash(ctx)
        if trashed.destroyed_at < limit
        and trashed.id not in survey.agent_ids
        and (trashed.provider, trashed.host) not in survey.errors
        and not trashed.saved.leaving
    ]
    return [
        CleanupTask(
            category="trashed agent", name=trashed.name, id=trashed.id, run=_make_saved_removal(ctx, trashed.trash_dir)
        )
        for trashed in expired
    ]


def _make_saved_removal(ctx: Context, saved_dir: str) -> Callable[[], None]:
    """Return a function that deletes a saved directory."""
    return lambda: remove_saved_directory(ctx, saved_dir)


def _list_interrupted_saves(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for what interrupted saves, clones and snapshots left in mngr's home."""
    tasks = []
    staging = os.path.join(ctx.home.cache, "stage")
    for folder in (ctx.home.trash, ctx.home.snapshots, staging, ctx.home.agents):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            path = os.path.join(folder, name)
            is_partial = (
                name.endswith(saved_directory.PARTIAL_SUFFIX)
                or name.startswith((".clone-", record_store.INCOMPLETE_PREFIX))
                or folder == staging
            )
            if is_partial and not _is_in_use(path):
                task = make_removal_task("interrupted save", name, ctx, path)
                tasks.append(task.replace(run=_make_snapshot_undo(ctx, path, task.run)))
    return tasks


def _make_snapshot_undo(ctx: Context, path: str, act: Callable[[], None] | None) -> Callable[[], None]:
    """Return a function that undoes a partial host snapshot, if there is one, and then calls `act`."""

    def undo() -> None:
        host_snapshots.undo_partial_snapshot(ctx, path)
        if act is not None:
            act()

    return undo


def _is_in_use(path: str) -> bool:
    """True when the process that writes to this directory is alive, or may have started only just now."""
    try:
        with open(os.path.join(path, saving.OWNER_FILE), encoding="utf-8") as file:
            return record_store.is_owner_alive(json.load(file))
    except (OSError, ValueError):
        return time.time() - os.lstat(path).st_mtime < MIN_AGE_SECONDS


def _list_unknown_work_dirs(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return report-only tasks for directories among the work dirs that belong to no agent."""
    tasks = []
    for host, _ in survey.agents_by_host:
        if not host.is_local or not os.path.isdir(host.home.work_dirs) or not os.listdir(host.home.work_dirs):
            continue
        known = {os.path.basename(agent.record.work_dir) for agent in listing.observe_host(ctx, host) if agent.record}
        for name in sorted(os.listdir(host.home.work_dirs)):
            if name not in known:
                path = os.path.join(host.home.work_dirs, name)
                note = f"{path} belongs to no agent, and mngr left it there; if you do not need it: rm -r {path}"
                tasks.append(CleanupTask(category="unknown directory", name=path, note=note))
    return tasks
