"""`restore`: creates an agent from a saved directory, in named steps with undo, as `create` does.

For a remote host, mngr first builds the agent in a local staging home and then sends it in one stream.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from mngr.agents import remove_hosts
from mngr.agents.context import Context
from mngr.agents.launch import environment, launch
from mngr.agents.sandbox import bubblewrap
from mngr.agents.saved import packs_in_user_repo, upload
from mngr.agents.saved.fetch_to_temporary_home import StagingHome
from mngr.agents.saved.restore_work_dir import WorkDirRestore, copy_shared_objects, restore_work_dir
from mngr.agents.saved_directory import AGENT_DIR, SavedState
from mngr.agents.sync import source_cache
from mngr.agents.workdir import project_setup
from mngr.agents.workdir.discard_agent import RESTORING_FILE, discard_agent
from mngr.agents.workdir.source import ProjectSource, find_source_repo, get_project_dir
from mngr.base import names_and_addresses, shell, time_format
from mngr.base.errors import MngrError, Unreachable
from mngr.base.model import AgentRecord, Struct
from mngr.host import agent_origin, git, record_store
from mngr.host.protocol import Host

# These files describe the saved agent's processes and are not valid for the restored agent.
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
    """How to restore a saved agent."""

    operation: str  # undestroy | clone | snapshot restore | migrate
    name: str
    host: Host
    is_former_host: bool = False  # `host` is the host that the agent was on
    agent_id: str | None = None  # None: create a new id
    has_name: bool = False  # the name points to this agent already
    branch: str | None = None  # None: the branch that the agent had
    fallback_branch: str | None = None  # used if the agent's branch is checked out elsewhere
    set_up: bool = False  # run the project's set-up, because ignored files are not saved


class RestoredAgent(Struct):
    """A restored agent, stopped, with notes for the user."""

    record: AgentRecord
    notes: list[str]


class _RestoreJob(Struct):
    """The input of all restore steps."""

    ctx: Context
    host: Host
    build_host: Host  # where mngr builds the agent: the host itself, or a local staging home
    saved_dir: str
    saved: SavedState
    request: RestoreRequest
    has_moved: bool
    notes: list[str]


def restore_agent(ctx: Context, saved_dir: str, saved: SavedState, request: RestoreRequest) -> RestoredAgent:
    """Restore an agent from a saved directory. On failure nothing is left but the saved directory.

    The caller must call `finish_restore` when it keeps the agent.
    """
    saved_record = get_saved_record(saved_dir, saved)
    host = request.host
    try:
        record = _make_record(host, saved, saved_record, request)
    except Unreachable as error:
        if not request.is_former_host:
            raise
        raise suggest_other_host(saved_record, request.operation, error) from None
    is_replacement = request.operation == "rescue"  # A rescue restores to a new machine with the old name.
    has_moved = is_replacement or (host.provider, host.name) != (saved_record.provider, saved_record.host)
    job = _RestoreJob(
        ctx=ctx,
        host=host,
        build_host=host,
        saved_dir=saved_dir,
        saved=saved,
        request=request,
        has_moved=has_moved,
        notes=[],
    )
    if host.is_local:
        return _run_steps(job, record)
    with StagingHome(ctx) as staging_home:
        return _run_steps(job.replace(build_host=staging_home.host), record)


def get_saved_record(saved_dir: str, saved: SavedState) -> AgentRecord:
    """Return the record in a saved directory. Raise MngrError when mngr cannot read it."""
    if saved.record is None:
        raise MngrError(
            f"mngr cannot read the record of {saved.name}: {saved.damage or 'it is missing'}",
            f"its files are still there: ls {saved_dir}",
        )
    return saved.record


def suggest_other_host(saved_record: AgentRecord, operation: str, error: Unreachable) -> Unreachable:
    """Return the same error with a hint that says how to restore the agent on another host."""
    snapshot = "mngr snapshot restore SNAPSHOT NAME@HOST"
    command = f"mngr undestroy {saved_record.name} --on @HOST" if operation == "undestroy" else snapshot
    other_host = f"restore it on another host: {command}"
    hint = f"{error.hint}; or {other_host}" if error.hint else other_host
    return Unreachable(f"{saved_record.name} was on {saved_record.host}: {error.message}", hint)


def _run_steps(job: _RestoreJob, record: AgentRecord) -> RestoredAgent:
    """Run all restore steps, and undo them if one fails."""
    announce = job.ctx.hooks.make_step_announcer(job.request.operation, record)
    try:
        for step, act in _STEPS:
            announce(step)
            record = act(job, record) or record
    except record_store.AgentExists:
        raise  # Another command creates the same agent, so nothing there belongs to this restore.
    except BaseException as error:
        if not _is_nothing_created(job.host, step, error):
            _undo_restore(job, record)
        if isinstance(error, OSError):
            raise MngrError(
                f"cannot restore {record.name}: {error}", shell.suggest_disk_check(job.ctx.home.root)
            ) from None
        raise
    return RestoredAgent(record=record, notes=job.notes)


def _is_nothing_created(host: Host, step: str, error: BaseException) -> bool:
    """True when the restore failed before it created anything. Anything there may be another command's.

    On this machine mngr reserves the directory before the name, on a remote host the name before the directory.
    """
    if host.is_local:
        return step == "reserve" and not isinstance(error, record_store.NameTaken)
    return isinstance(error, record_store.NameTaken)


def _undo_restore(job: _RestoreJob, record: AgentRecord) -> None:
    """Delete the half-restored agent, and its host if that was created for it."""
    try:
        discard_agent(job.ctx, job.host, record)
        remove_hosts.destroy_empty_hosts(job.ctx, [job.host])
    except Unreachable:
        host_name = job.host.name
        job.ctx.note(f"parts of {record.name} may still be on {host_name}; when that host answers again: mngr gc")


def _make_record(host: Host, saved: SavedState, saved_record: AgentRecord, request: RestoreRequest) -> AgentRecord:
    """Return the record of the agent to restore. Raise MngrError when the host cannot have this agent."""
    agent_id = request.agent_id or names_and_addresses.generate_id()
    work_dir = _choose_work_dir(host, saved_record, request, agent_id)
    is_isolated = saved_record.sandbox or saved_record.network != "on"
    if is_isolated and host.provider != saved_record.provider:
        reason = (
            f"runs in a sandbox, and sandboxes do not work on {host.provider} hosts"
            if saved_record.sandbox
            else f"was created with --network {saved_record.network}, and mngr cannot move this agent to {host.provider} hosts"
        )
        raise MngrError(
            f"{saved_record.name} {reason}",
            f"choose a host of the provider {saved_record.provider}: @HOST.{saved_record.provider}",
        )
    record = saved_record.replace(
        id=agent_id,
        name=request.name,
        phase="creating",
        owner=record_store.describe_this_process(),
        work_dir=work_dir,
        host=host.name,
        provider=host.provider,
    )
    if request.agent_id is None:
        record = record.replace(created_at=time_format.format_timestamp())
    if saved.staged and saved_record.transfer == "worktree":  # The source repository is on the former host.
        record = record.replace(transfer="mirror", source=None)
    return record


def _choose_work_dir(host: Host, saved_record: AgentRecord, request: RestoreRequest, agent_id: str) -> str:
    """Return the former path of the work dir if the agent can have it again, or else a free path."""
    work_dir = saved_record.work_dir
    if saved_record.transfer == "none":
        if not host.has_path(work_dir):
            raise MngrError(
                f"the work dir of {saved_record.name} no longer exists: {work_dir} on {host.name}",
                f"create the directory, then run the command again: mkdir -p {work_dir}",
            )
        return work_dir
    is_same_agent = request.agent_id is not None
    is_managed = os.path.dirname(work_dir) == host.home.work_dirs
    if is_same_agent and is_managed and not host.has_path(work_dir):
        return work_dir
    work_dir = os.path.join(host.home.work_dirs, request.name)
    return f"{work_dir}-{agent_id[2:8]}" if host.has_path(work_dir) else work_dir


def _reserve(job: _RestoreJob, record: AgentRecord) -> None:
    """Reserve the agent's directory and name."""
    record_store.reserve_agent(job.ctx.home, job.host, record, mark=RESTORING_FILE, named=not job.request.has_name)


def _restore_agent_files(job: _RestoreJob, record: AgentRecord) -> None:
    """Copy the agent's own files: its conversation, events, outputs and variables."""
    source = os.path.join(job.saved_dir, AGENT_DIR)
    target = job.build_host.home.agent_dir(record.id)
    os.makedirs(os.path.join(target, "outputs"), mode=0o700, exist_ok=True)
    all_names = sorted(os.listdir(source))
    names_to_copy = [name for name in all_names if name not in _NOT_RESTORED_FILES and not name.endswith(".new")]
    if not names_to_copy:
        return
    paths = [os.path.join(source, name) for name in names_to_copy]
    result = job.build_host.run(["cp", "-Rp", "--", *paths, target])
    if result.code:
        raise MngrError(
            f"cannot copy the files of {record.name}: {result.error_line}", shell.suggest_disk_check(target)
        )


def _restore_work_dir(job: _RestoreJob, record: AgentRecord) -> AgentRecord:
    """Restore the work dir, send everything to a remote host, and return the record with its branch."""
    host, build_host = job.host, job.build_host
    is_remote = build_host is not host
    branch = job.request.branch if record.transfer in ("worktree", "mirror") else None
    build_record, restored, source_copy = record, record, ""
    if is_remote:
        build_record = record.replace(work_dir=upload.get_upload_work_dir(build_host, record))
        source_copy = _copy_source_to_host(job, record)
    if record.transfer != "none":
        restore = WorkDirRestore(
            host=build_host,
            saved_dir=job.saved_dir,
            saved=job.saved,
            record=build_record,
            branch=branch,
            fallback_branch=job.request.fallback_branch,
            needs_own_repo=is_remote,
            can_share_objects=bool(source_copy),
            notes=job.notes,
        )
        restored = restore_work_dir(restore).replace(work_dir=record.work_dir)
    _update_agent_files(job, restored)
    if is_remote:
        try:
            upload.upload_agent(build_host, host, restored, source_copy)
        except upload.SourceObjectsMissing:
            copy_shared_objects(build_host, upload.get_upload_work_dir(build_host, restored))
            upload.upload_agent(build_host, host, restored)
    return record_store.save_record(host, restored) if restored != record else restored


def _copy_source_to_host(job: _RestoreJob, record: AgentRecord) -> str:
    """Copy the agent's source repository to the host and return its path there.

    The agent's objects then need not be sent. Return an empty string if that is not possible or not worthwhile.
    """
    if record.transfer not in ("worktree", "mirror") or record.source is None:
        return ""
    local = job.ctx.local_host
    repo = find_source_repo(local, record.source)
    if repo is None or job.saved.saved != "git" or not packs_in_user_repo.has_large_packs(local, repo):
        return ""
    source = ProjectSource(
        host=local,
        path=record.source,
        repo=repo,
        durable_path=record.source,
        project=record.project,
        git_command=git.SAFE_GIT,  # A remote host may have named any directory here as the source.
    )
    try:
        host_copy = source_cache.copy_source_to_host(job.ctx, source, job.host, "mirror", None).host_copy
    except Unreachable:
        raise
    except MngrError:
        return ""
    return host_copy.root if host_copy is not None else ""


def _update_agent_files(job: _RestoreJob, record: AgentRecord) -> None:
    """Write the agent's variables for its new host and id, and mark it as stopped."""
    directory = job.build_host.home.agent_dir(record.id)
    path = os.path.join(directory, "env")
    base = environment.get_host_variables(job.ctx.home, job.host) if job.has_moved else None
    text = environment.replace_agent_part(
        job.build_host.read(path), environment.build_agent_variables(job.ctx, job.host, record), base
    )
    job.build_host.write(path, text)
    stopped = f'{{"at":{int(time_format.parse_timestamp(time_format.format_timestamp()))},"reason":"{job.request.operation}"}}\n'
    job.build_host.write(os.path.join(directory, "stopped"), stopped.encode())


def _prepare(job: _RestoreJob, record: AgentRecord) -> None:
    """Install mngr's programs on the host, prepare the agent kind and write the sandbox."""
    launch.install_on_host(job.ctx, job.host)
    bubblewrap.write_sandbox(job.ctx, job.host, record)
    # The files come from an agent that has run, so they may contain links.
    job.ctx.get_agent_kind(record).prepare(bubblewrap.open_kind_host(job.ctx, job.host, record), record)


def _set_up(job: _RestoreJob, record: AgentRecord) -> None:
    """Copy the carried files and run the project's set-up, if the request asks for it."""
    if not job.request.set_up or record.transfer == "none":
        return
    host = job.host
    root = None if record.source is None else get_project_dir(record.source)
    if root is not None and os.path.isdir(root):
        settings = job.ctx.load_project_settings(root)
        project_setup.copy_carried_files(
            job.ctx.local_host, root, host, record, settings, replace=False, git_command=git.SAFE_GIT
        )
        project_setup.run_or_reuse_setup(host, record, settings, lambda: project_setup.NOT_CACHED, project=root)
    # The settings in the work dir come from the agent, so mngr does not run their set-up on this machine.
    elif not host.is_local:
        settings = job.ctx.load_host_settings(host, record.work_dir)
        project_setup.run_or_reuse_setup(
            host, record, settings, lambda: project_setup.NOT_CACHED, project=record.work_dir
        )


def _commit(job: _RestoreJob, record: AgentRecord) -> AgentRecord:
    """Mark the agent as ready and record the event."""
    agent_origin.save_origin(job.ctx.home, record)
    record = record_store.save_record(job.host, record.replace(phase="ready", owner=None))
    data = {"from": job.saved.id, "name": record.name, "branch": record.branch}
    record_store.add_event(job.host, record.id, job.request.operation.replace(" ", "_"), **data)
    return record


_STEPS: tuple[tuple[str, Callable[[_RestoreJob, AgentRecord], AgentRecord | None]], ...] = (
    ("reserve", _reserve),
    ("agent_files", _restore_agent_files),
    ("work_dir", _restore_work_dir),
    ("prepare", _prepare),
    ("set_up", _set_up),
    ("commit", _commit),
)
