"""`restore`: an agent from a saved directory, in named steps with undo, as `create` makes one.

For another host everything is made here first, in a directory laid out as a home, and sent in one stream.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.launch import environment, launch
from mngr.agents.sandbox import bubblewrap
from mngr.agents.saved import shared_packs, upload
from mngr.agents.saved.restore_work_dir import WorkDirRestore, copy_shared_objects, restore_work_dir
from mngr.agents.saved.staging import StagingHome
from mngr.agents.saved_directory import AGENT_DIR
from mngr.agents.sync import source_cache
from mngr.agents.workdir import project_setup
from mngr.agents.workdir.discard import RESTORING_FILE, discard_agent
from mngr.agents.workdir.source import ProjectSource, find_source_repo, get_project_dir
from mngr.base import clock, config, names
from mngr.base.errors import MngrError, Unreachable
from mngr.base.model import AgentRecord, Struct
from mngr.host import store
from mngr.host.protocol import Host

# What belongs to the agent that was, not to the one that is made from it.
_NOT_RESTORED_FILES = (
    "agent.json",
    "command",
    "exit",
    "proc",
    "stopped",
    "status",
    "lock",
    "limit",
    "input",
    "saved",
    RESTORING_FILE,
    "raw",
    "gather",
    *upload.UPLOAD_NAMES,
)


class RestoreRequest(Struct):
    """What shall become of a saved agent."""

    operation: str  # undestroy | clone | snapshot restore | migrate
    name: str
    host: Host
    is_former_host: bool = False  # it is the host that the agent was on
    agent_id: str | None = None  # None: it is a new one
    has_name: bool = False  # the name here is its own already
    branch: str | None = None  # None: the branch it had
    fallback_branch: str | None = None  # a branch to take if the one it had is checked out elsewhere
    set_up: bool = False  # run the project's set-up, for ignored files are not saved


class RestoredAgent(Struct):
    """The agent, stopped, and what there is to say about it."""

    record: AgentRecord
    notes: list[str]


class _RestoreJob(Struct):
    """What the steps work on."""

    ctx: Context
    host: Host
    build_host: Host  # where it is made: there, or in a stage of ours
    saved_dir: str
    meta: dict[str, Any]
    request: RestoreRequest
    has_moved: bool
    notes: list[str]


def restore_agent(ctx: Context, place: str, meta: dict[str, Any], wish: RestoreRequest) -> RestoredAgent:
    """Make the agent; on any failure nothing is left but the saved directory. The caller settles it."""
    saved = get_saved_record(place, meta)
    host = wish.host
    try:
        record = _make_record(host, saved, meta, wish)
    except Unreachable as error:
        raise suggest_other_host(saved, wish.operation, error) if wish.is_former_host else error from None
    is_new = wish.operation == "rescue"  # another machine by the old name
    moved = is_new or (host.provider, host.name) != (saved.provider, saved.host)
    task = _RestoreJob(
        ctx=ctx,
        host=host,
        build_host=host,
        saved_dir=place,
        meta=meta,
        request=wish,
        has_moved=moved,
        notes=[],
    )
    if host.is_local:
        return _run_steps(task, record)
    with StagingHome(ctx) as stage:
        return _run_steps(task.replace(build_host=stage.host), record)


def get_saved_record(place: str, meta: dict[str, Any]) -> AgentRecord:
    """The record that was saved; MngrError when it was damaged."""
    if not isinstance(meta.get("record"), dict):
        raise MngrError(f"the record of {meta.get('name')} was damaged when it was saved", f"its files are in {place}")
    try:
        return store.decode_record(json.dumps(meta["record"]))
    except ValueError as error:
        raise MngrError(f"the record of {meta.get('name')} is damaged: {error}", f"its files are in {place}") from None


def suggest_other_host(saved: AgentRecord, operation: str, error: Unreachable) -> Unreachable:
    """The same error, which says how to do without that host."""
    snapshot = "mngr snapshot restore SNAPSHOT NAME@HOST"
    other = f"mngr undestroy {saved.name} --on @HOST" if operation == "undestroy" else snapshot
    hint = f"{error.hint}; or bring it back elsewhere: {other}" if error.hint else f"elsewhere: {other}"
    return Unreachable(f"{saved.name} was on {saved.host}: {error.message}", hint)


def _run_steps(task: _RestoreJob, record: AgentRecord) -> RestoredAgent:
    announce = task.ctx.hooks.make_step_announcer(task.request.operation, record)
    try:
        for step, act in _STEPS:
            announce(step)
            record = act(task, record) or record
    except store.AgentExists:
        raise  # another command makes the same agent: nothing here is ours
    except BaseException as error:
        if not _is_nothing_created(task.host, step, error):
            _undo_restore(task, record)
        if isinstance(error, OSError):
            raise MngrError(f"cannot restore {record.name}: {error}", "check space and permissions") from None
        raise
    return RestoredAgent(record=record, notes=task.notes)


def _is_nothing_created(host: Host, step: str, error: BaseException) -> bool:
    """Whether it ended before anything was there: what is there now may be another command's.

    Here the directory comes before the name, on another host the name before the directory.
    """
    if host.is_local:
        return step == "reserve" and not isinstance(error, store.NameTaken)
    return isinstance(error, store.NameTaken)


def _undo_restore(task: _RestoreJob, record: AgentRecord) -> None:
    try:
        discard_agent(task.ctx, task.host, record)
        removal.destroy_empty_hosts(task.ctx, [task.host])
    except Unreachable:
        where = task.host.name
        task.ctx.note(f"{record.name} may be left half made on {where}; when that answers again: mngr gc")


def _make_record(host: Host, saved: AgentRecord, meta: dict[str, Any], wish: RestoreRequest) -> AgentRecord:
    agent_id = wish.agent_id or names.generate_id()
    work = saved.work_dir
    if saved.transfer == "none":
        if not host.has_path(work):
            raise MngrError(f"the directory it worked in is gone: {work} on {host.name}", "put it back, and try again")
    elif wish.agent_id is None or os.path.dirname(work) != host.home.work_dirs or host.has_path(work):
        work = os.path.join(host.home.work_dirs, wish.name)
        if host.has_path(work):
            work = f"{work}-{agent_id[2:8]}"
    if (saved.sandbox or saved.network != "on") and host.provider != saved.provider:
        raise MngrError(
            f"{saved.name} is behind walls that {host.provider} hosts do not have",
            f"bring it back on {saved.provider}",
        )
    fresh: dict[str, Any] = {} if wish.agent_id is not None else {"created_at": clock.format_timestamp()}
    if meta.get("staged") and saved.transfer == "worktree":  # of a repository on the host it was on
        fresh.update(transfer="mirror", source=None)
    return saved.replace(
        id=agent_id, name=wish.name, phase="creating", owner=store.describe_this_process(), work_dir=work,
        host=host.name, provider=host.provider, **fresh,
    )  # fmt: skip


def _reserve(task: _RestoreJob, record: AgentRecord) -> None:
    store.reserve_agent(task.ctx.home, task.host, record, mark=RESTORING_FILE, named=not task.request.has_name)


def _restore_agent_files(task: _RestoreJob, record: AgentRecord) -> None:
    """Conversation, events, outputs, variables."""
    source, target = os.path.join(task.saved_dir, AGENT_DIR), task.build_host.home.agent_dir(record.id)
    os.makedirs(os.path.join(target, "outputs"), mode=0o700, exist_ok=True)
    kept = [n for n in sorted(os.listdir(source)) if n not in _NOT_RESTORED_FILES and not n.endswith(".new")]
    if kept:
        done = task.build_host.run(["cp", "-Rp", "--", *(os.path.join(source, name) for name in kept), target])
        if done.code:
            raise MngrError(f"cannot copy the files of {record.name}: {done.error_line}", "check space and permissions")


def _restore_work_dir(task: _RestoreJob, record: AgentRecord) -> AgentRecord:
    host, build = task.host, task.build_host
    is_far = build is not host
    branch = task.request.branch if record.transfer in ("worktree", "mirror") else None
    made, near = record, _copy_source_to_host(task, record) if is_far else ""
    if record.transfer != "none":
        work = WorkDirRestore(
            host=build,
            saved_dir=task.saved_dir,
            meta=task.meta,
            record=record.replace(work_dir=upload.get_upload_work_dir(build, record)) if is_far else record,
            branch=branch,
            fallback_branch=task.request.fallback_branch,
            needs_own_repo=is_far,
            can_share_objects=bool(near),
            notes=task.notes,
        )
        made = restore_work_dir(work).replace(work_dir=record.work_dir)
    _update_agent_files(task, made)
    if is_far:
        try:
            upload.upload_agent(build, host, made, near)
        except upload.SourceObjectsMissing:
            copy_shared_objects(build, upload.get_upload_work_dir(build, made))
            upload.upload_agent(build, host, made)
    return store.save_record(host, made) if made != record else made


def _copy_source_to_host(task: _RestoreJob, record: AgentRecord) -> str:
    """A copy on the host of the repository that the agent was made from, so that it need not travel with it; or nothing."""
    if record.transfer not in ("worktree", "mirror") or record.source is None:
        return ""
    local = task.ctx.local_host
    repo = find_source_repo(local, record.source)
    if repo is None or task.meta.get("saved") != "git" or not shared_packs.has_large_packs(local, repo):
        return ""
    origin = ProjectSource(
        host=local, path=record.source, repo=repo, durable_path=record.source, project=record.project
    )
    try:
        near = source_cache.copy_source_to_host(task.ctx, origin, task.host, "mirror", None).host_copy
    except Unreachable:
        raise
    except MngrError:
        return ""
    return near.root if near is not None else ""


def _update_agent_files(task: _RestoreJob, record: AgentRecord) -> None:
    """What its variables say of its host and of itself, and that it does not run."""
    directory = task.build_host.home.agent_dir(record.id)
    path = os.path.join(directory, "env")
    base = environment.get_host_variables(task.ctx.home, task.host) if task.has_moved else None
    text = environment.replace_agent_part(
        task.build_host.read(path), environment.build_agent_variables(task.ctx, task.host, record), base
    )
    task.build_host.write(path, text)
    stopped = f'{{"at":{int(clock.parse_timestamp(clock.format_timestamp()))},"reason":"{task.request.operation}"}}\n'
    task.build_host.write(os.path.join(directory, "stopped"), stopped.encode())


def _prepare(task: _RestoreJob, record: AgentRecord) -> None:
    launch.install_on_host(task.ctx, task.host)
    task.ctx.get_agent_kind(record).prepare(task.host, record)
    bubblewrap.write_sandbox(task.ctx, task.host, record)


def _set_up(task: _RestoreJob, record: AgentRecord) -> None:
    if not task.request.set_up or record.transfer == "none":
        return
    host = task.host
    root = None if record.source is None else get_project_dir(record.source)
    if root is not None and os.path.isdir(root):
        settings = config.load_settings(task.ctx.home.settings, root, [], dict(os.environ))
        project_setup.copy_carried_files(task.ctx.local_host, root, host, record, settings, replace=False)
        project_setup.run_or_reuse_setup(host, record, settings)
    elif not host.is_local:  # here nothing is run that only an agent of another host has asked for
        project_setup.run_or_reuse_setup(host, record, task.ctx.load_host_settings(host, record.work_dir))


def _commit(task: _RestoreJob, record: AgentRecord) -> AgentRecord:
    store.save_branch(task.ctx.home, record)
    record = store.save_record(task.host, record.replace(phase="ready", owner=None))
    data = {"from": task.meta["id"], "name": record.name, "branch": record.branch}
    store.add_event(task.host, record.id, task.request.operation.replace(" ", "_"), **data)
    return record


_STEPS: tuple[tuple[str, Callable[[_RestoreJob, AgentRecord], AgentRecord | None]], ...] = (
    ("reserve", _reserve),
    ("agent_files", _restore_agent_files),
    ("work_dir", _restore_work_dir),
    ("prepare", _prepare),
    ("set_up", _set_up),
    ("commit", _commit),
)
