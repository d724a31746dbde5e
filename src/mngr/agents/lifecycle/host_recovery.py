"""Recreates a host that is gone, and restores its agents from what is known outside of it.

That is the provider's backup (commits and the agent's own files), or only the records and their base commits.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from typing import Any, TypeVar

from mngr.agents import remove_hosts, saved_directory
from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.launch import environment
from mngr.agents.saved import save as saving
from mngr.agents.saved import tar
from mngr.agents.saved.restore import RestoreRequest, restore_agent
from mngr.agents.saved_directory import SavedState
from mngr.agents.workdir.discard_agent import finish_restore
from mngr.agents.workdir.source import find_source_repo
from mngr.base import time_format
from mngr.base.errors import HostGone, MngrError, Unreachable
from mngr.base.fanout import map_parallel
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord, Struct
from mngr.base.untrusted_json import find_number, find_text
from mngr.host import agent_origin, git, record_store
from mngr.host.protocol import BackupProvider, Host
from mngr.host.remote_host import RemoteHost

T = TypeVar("T")


COMMITS_BUNDLE, FILES_ARCHIVE = saving.BUNDLE_FILE, "agent.tar"  # the files that BackupProvider.fetch_backup writes
LOCK_FILE_COUNT = 64  # All hosts share this many lock files.
_MAX_PARALLEL_AGENTS = 4


class AgentBackup(Struct):
    """A backup of an agent that a provider keeps outside the agent's host."""

    record: AgentRecord | None  # None when it is invalid
    at: float  # seconds since the epoch
    head: str | None = None  # the last commit in the backup
    form: str | None = None  # git's object format


class RecoveredAgent(Struct):
    """An agent of a host that is gone, as far as mngr can restore it."""

    path: str  # a saved directory in the trash
    saved: SavedState
    note: str  # says what is lost


def recover_host(ctx: Context, error: HostGone) -> list[str]:
    """Create a host again that is gone, restore its agents as stopped, and return a note about each."""
    lock_number = zlib.crc32(f"{error.provider} {error.host}".encode()) % LOCK_FILE_COUNT
    with Lock(os.path.join(ctx.home.cache, f"rescue-{lock_number}.lock"), timeout=3600):
        try:
            listing.observe_host(ctx, ctx.get_host(error.provider, error.host))
            return []  # Another command has recovered the host meanwhile.
        except HostGone as current_error:
            error = current_error
        recovered = trash_lost_agents(ctx, error)
        remove_hosts.destroy_host(ctx, error.provider, error.host)
        provider = ctx.get_provider(error.provider)
        try:
            new_host = provider.create(error.host, {})
        except MngrError as problem:
            names = " ".join(agent.saved.name for agent in recovered)
            raise type(problem)(
                problem.message, f"{problem.hint}; then restore the agents: mngr undestroy {names}"
            ) from None
        host = ctx.get_host(error.provider, error.host)
        if isinstance(host, RemoteHost) and isinstance(new_host, RemoteHost):
            host.adopt_home(new_host)
        ctx.installed_libs.pop(host, None)
        return _raise_first_error(
            map_parallel(lambda agent: _restore_agent(ctx, agent, host), recovered, at_once=_MAX_PARALLEL_AGENTS)
        )


def trash_lost_agents(ctx: Context, error: HostGone) -> list[RecoveredAgent]:
    """Move all agents of a host that is gone to the trash, from their backups. This releases their names."""
    backups = list_backups(ctx, error)
    records = list_lost_agents(ctx, error, backups)
    return _raise_first_error(
        map_parallel(
            lambda record: trash_lost_agent(ctx, record, error, backups.get(record.id)),
            records,
            at_once=_MAX_PARALLEL_AGENTS,
        )
    )


def _raise_first_error(answers: list[T | Exception]) -> list[T]:
    """Return the answers, or raise the first one that is an error."""
    results = []
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
        results.append(answer)
    return results


def list_lost_agents(ctx: Context, error: HostGone, backups: dict[str, AgentBackup]) -> list[AgentRecord]:
    """Return the records of the agents that a host had: from its last answer and from later backups."""
    records = {
        agent.id: agent.record
        for agent in listing.list_last_observed(ctx, error)
        if agent.record and agent.record.phase == "ready"
    }
    for agent_id in backups.keys() - records.keys():
        record = backups[agent_id].record
        if record is None:
            continue
        is_name_on_host = record_store.find_host_of_name(ctx.home, record.name) == (error.provider, error.host)
        if record.id == agent_id == record_store.find_id(ctx.home, record.name) and is_name_on_host:
            records[agent_id] = record
    return [records[agent_id] for agent_id in sorted(records)]


def list_backups(ctx: Context, error: HostGone) -> dict[str, AgentBackup]:
    """Return the provider's backup of each agent by id, if it keeps any. Raise Unreachable when it does not answer."""
    provider = ctx.get_provider(error.provider)
    if not isinstance(provider, BackupProvider):
        return {}
    try:
        rows = provider.list_backups(error.host)
    except Unreachable as problem:
        why = f"{error.provider} cannot deliver the backup of {error.host} now: {problem.message}"
        raise Unreachable(why, f"try again later: mngr start @{error.host}.{error.provider}") from None
    return {agent_id: _parse_backup(row) for agent_id, row in rows.items()}


def _parse_backup(row: dict[str, object]) -> AgentBackup:
    """Return a backup from the provider's row. The host wrote the record, so it may be invalid."""
    try:
        record = record_store.decode_record(json.dumps(row.get("record")))
    except ValueError:
        record = None
    at = find_number(row, "at") or 0.0
    return AgentBackup(record=record, at=at, head=find_text(row, "head"), form=find_text(row, "form"))


def trash_lost_agent(ctx: Context, record: AgentRecord, error: HostGone, backup: AgentBackup | None) -> RecoveredAgent:
    """Create a saved directory in the trash from what is known of an agent."""
    record = agent_origin.correct_record(ctx.home, record.replace(host=error.host, provider=error.provider))
    target = os.path.join(ctx.home.trash, record.id)
    partial_dir = target + saved_directory.PARTIAL_SUFFIX
    ctx.local_host.run(["rm", "-rf", "--", partial_dir])
    os.makedirs(os.path.join(partial_dir, saved_directory.AGENT_DIR), mode=0o700)
    if backup is not None:
        provider: Any = ctx.get_provider(error.provider)
        provider.fetch_backup(error.host, record.id, partial_dir)
    has_commits = _get_file_size(os.path.join(partial_dir, COMMITS_BUNDLE)) > 0
    if not has_commits:
        ctx.local_host.run(["rm", "-f", "--", os.path.join(partial_dir, COMMITS_BUNDLE)])
    backup_head = backup.head if backup is not None and has_commits else None
    saved = _describe_saved(ctx, record, backup, backup_head)
    has_files = _unpack_agent_files(ctx, record, partial_dir)
    saved_directory.write_saved_state(ctx.local_host, partial_dir, saved)
    saving.rename_to_final(ctx.local_host, partial_dir, target)
    record_store.release_name(ctx.home, record.name, record.id)
    note = _describe_recovered(record, error, backup, saved.head if has_commits else None, has_files)
    return RecoveredAgent(path=target, saved=saved, note=note)


def _describe_saved(
    ctx: Context, record: AgentRecord, backup: AgentBackup | None, backup_head: str | None
) -> SavedState:
    """Return the description of the saved directory. `backup_head` is the last commit in it, if it has commits."""
    head = str(backup_head or record.base)
    object_format = backup.form if backup is not None else None
    refs = {"HEAD": head}
    if record.branch:
        refs[f"refs/heads/{record.branch}"] = head
    return SavedState(
        id=record.id,
        name=record.name,
        at=time_format.format_timestamp(),
        why="host gone",
        record=_adapt_record(ctx, record),
        base=record.base,
        saved="git" if record.base else "none",
        head=head,
        branch=record.branch,
        refs=refs,
        form=object_format or _get_object_format(ctx, record),
        prerequisites=[record.base] if record.base else [],
        new_objects=int(backup_head is not None),
    )


def _adapt_record(ctx: Context, record: AgentRecord) -> AgentRecord:
    """Return the record with the transfer mode that fits the restore.

    A mirror becomes a worktree when its source repository is here, which is certain when that has the base commit.
    """
    repo = find_source_repo(ctx.local_host, record.source) if record.transfer == "mirror" and record.source else None
    if repo is None or not record.base or git.find_commit(ctx.local_host, repo.root, record.base, git.SAFE_GIT) is None:
        return record if record.transfer != "worktree" else record.replace(transfer="mirror", source=None)
    return record.replace(transfer="worktree")  # The saved refs are like those of a worktree.


def _unpack_agent_files(ctx: Context, record: AgentRecord, partial_dir: str) -> bool:
    """Unpack the agent's own files and return whether there are any. The agent wrote the archive, so check it first."""
    archive = os.path.join(partial_dir, FILES_ARCHIVE)
    agent_dir = os.path.join(partial_dir, saved_directory.AGENT_DIR)
    try:
        if _get_file_size(archive):
            tar.check_archive(archive, only=(record.id,))
            tar.unpack(ctx.local_host, archive, partial_dir)
            os.rmdir(agent_dir)
            os.rename(os.path.join(partial_dir, record.id), agent_dir)
    except (MngrError, OSError):
        ctx.local_host.run(["rm", "-rf", "--", os.path.join(partial_dir, record.id)])
        os.makedirs(agent_dir, mode=0o700, exist_ok=True)
    ctx.local_host.run(["rm", "-f", "--", archive])
    has_env = os.path.isfile(os.path.join(agent_dir, "env"))
    if not has_env:
        variables = environment.get_inherited_variables(ctx.get_agent_kind(record))
        text = environment.format_env_file({}, variables, {}, private_names=variables)
        ctx.local_host.write(os.path.join(agent_dir, "env"), text)
    return has_env


def _describe_recovered(
    record: AgentRecord, error: HostGone, backup: AgentBackup | None, head: str | None, has_files: bool
) -> str:
    """Return a sentence that says what of an agent is restored and what is lost."""
    if head is not None and backup is not None:
        age = time_format.format_age(max(0.0, time.time() - backup.at))
        restored = f"{record.name} is restored at commit {head[:10]}, from a backup {age} old"
    else:
        restored = f"{record.name} is restored at its base commit, because there is no backup of its commits"
    loss = "its uncommitted changes are lost" if has_files else "its files and its conversation are lost"
    return f"{error.message}; {restored}; {loss}"


def _restore_agent(ctx: Context, recovered: RecoveredAgent, host: Host) -> str:
    """Restore an agent with its id and name, and return a note about it."""
    name = recovered.saved.name
    try:
        restored = restore_agent(
            ctx,
            recovered.path,
            recovered.saved,
            RestoreRequest(operation="rescue", name=name, host=host, agent_id=recovered.saved.id, set_up=True),
        )
    except MngrError as error:
        return f"mngr could not restore {name}: {error.message}; it is in the trash: mngr undestroy {name}"
    finish_restore(host, restored.record)
    saving.remove_saved_directory(ctx, recovered.path)
    return "; ".join([recovered.note, *restored.notes])


def _get_object_format(ctx: Context, record: AgentRecord) -> str:
    """Return the object format of the agent's source repository, such as sha1."""
    if record.source is None or not os.path.isdir(record.source):
        return "sha1"
    result = git.run(ctx.local_host, record.source, "rev-parse", "--show-object-format", git_command=git.SAFE_GIT)
    return result.text if result.code == 0 else "sha1"


def _get_file_size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
