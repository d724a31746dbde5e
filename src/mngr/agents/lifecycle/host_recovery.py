"""`start` for a host that is gone: it is made anew, and its agents from what is known of them outside of it.

That is what its provider kept (their commits and their own files, as they came), else their records and where they began.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from typing import Any, TypeVar

from mngr.agents import saved_directory
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect import list as listing
from mngr.agents.launch import environment
from mngr.agents.saved import save as saving
from mngr.agents.saved import tar
from mngr.agents.saved.restore import RestoreRequest, restore_agent
from mngr.agents.workdir.discard import finish_restore
from mngr.agents.workdir.source import find_source_repo
from mngr.base import clock
from mngr.base.errors import HostGone, MngrError, Unreachable
from mngr.base.fanout import map_parallel
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord, Struct
from mngr.host import git, store
from mngr.host.protocol import BackupProvider, Host
from mngr.host.remote_host import RemoteHost

T = TypeVar("T")


COMMITS_BUNDLE, FILES_ARCHIVE = saving.BUNDLE_FILE, "agent.tar"  # what host.Keeps gives
LOCK_FILE_COUNT = 64  # files for the locks of all hosts
_MAX_PARALLEL_AGENTS = 4  # agents


class RecoveredAgent(Struct):
    """An agent of a host that is gone, as far as it can be brought back."""

    path: str  # a saved directory, in the graveyard
    meta: dict[str, Any]
    note: str  # what is lost


def recover_host(ctx: Context, error: HostGone) -> list[str]:
    """Make a host anew that is gone, and its agents, stopped; what there is to say of each."""
    number = zlib.crc32(f"{error.provider} {error.host}".encode()) % LOCK_FILE_COUNT
    with Lock(os.path.join(ctx.home.cache, f"rescue-{number}.lock"), timeout=3600):
        try:
            listing.observe_host(ctx, ctx.get_host(error.provider, error.host))
            return []  # somebody else was faster
        except HostGone as still:
            error = still
        kept = trash_lost_agents(ctx, error)
        removal.destroy_host(ctx, error.provider, error.host)
        provider = ctx.get_provider(error.provider)
        try:
            made = provider.create(error.host, {})
        except MngrError as problem:
            names = " ".join(one.meta["name"] for one in kept)
            raise type(problem)(problem.message, f"{problem.hint}; then: mngr undestroy {names}") from None
        host = ctx.get_host(error.provider, error.host)
        if isinstance(host, RemoteHost) and isinstance(made, RemoteHost):
            host.adopt_home(made)
        ctx.installed_libs.pop(host, None)
        return _raise_first_error(
            map_parallel(lambda one: _restore_agent(ctx, one, host), kept, at_once=_MAX_PARALLEL_AGENTS)
        )


def trash_lost_agents(ctx: Context, error: HostGone) -> list[RecoveredAgent]:
    """Put all agents of a host that is gone into the graveyard, as they are known elsewhere; their names are free then."""
    known = list_backups(ctx, error)
    agents = list_lost_agents(ctx, error, known)
    return _raise_first_error(
        map_parallel(
            lambda one: trash_lost_agent(ctx, one, error, known.get(one.id)),
            agents,
            at_once=_MAX_PARALLEL_AGENTS,
        )
    )


def _raise_first_error(answers: list[T | Exception]) -> list[T]:
    """Each of them; the first that failed is raised."""
    found = []
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
        found.append(answer)
    return found


def list_lost_agents(ctx: Context, error: HostGone, known: dict[str, dict[str, Any]]) -> list[AgentRecord]:
    """The agents that a host had: those it last showed, and those of which something was kept since."""
    found = {s.id: s.record for s in listing.list_last_observed(ctx, error) if s.record and s.record.phase == "ready"}
    for agent_id in known.keys() - found.keys():
        try:
            record = store.decode_record(json.dumps(known[agent_id].get("record")))
        except ValueError:
            continue  # it is only the host's word
        is_known = store.find_host_of_name(ctx.home, record.name) == (error.provider, error.host)
        if record.id == agent_id == store.find_id(ctx.home, record.name) and is_known:
            found[agent_id] = record
    return [found[agent_id] for agent_id in sorted(found)]


def list_backups(ctx: Context, error: HostGone) -> dict[str, dict[str, Any]]:
    """What the provider kept of each agent, if it keeps anything; Unreachable when it does not say now."""
    provider = ctx.get_provider(error.provider)
    try:
        return provider.list_backups(error.host) if isinstance(provider, BackupProvider) else {}
    except Unreachable as problem:
        why = f"what {error.provider} kept of {error.host} cannot be had now: {problem.message}"
        raise Unreachable(why, "try again") from None


def trash_lost_agent(
    ctx: Context, record: AgentRecord, error: HostGone, known: dict[str, Any] | None
) -> RecoveredAgent:
    """A saved directory of what is known of an agent."""
    target = os.path.join(ctx.home.trash, record.id)
    part = target + saved_directory.PARTIAL_SUFFIX
    ctx.local_host.run(["rm", "-rf", "--", part])
    os.makedirs(os.path.join(part, saved_directory.AGENT_DIR), mode=0o700)
    if known is not None:
        keeper: Any = ctx.get_provider(error.provider)
        keeper.fetch_backup(error.host, record.id, part)
    at = str((known or {}).get("head") or record.base)
    has_commits = _get_file_size(os.path.join(part, COMMITS_BUNDLE)) > 0
    if not has_commits:
        ctx.local_host.run(["rm", "-f", "--", os.path.join(part, COMMITS_BUNDLE)])
        at = str(record.base)
    meta = {
        "v": 1, "id": record.id, "name": record.name, "at": clock.format_timestamp(), "why": "host gone", "record": _adapt_record(ctx, record).to_dict(),
        "base": record.base, "saved": "git" if record.base else "none", "head": at, "branch": record.branch,
        "refs": {"HEAD": at, f"refs/heads/{record.branch}": at} if record.branch else {"HEAD": at},
        "form": (known or {}).get("form") or _get_object_format(ctx, record), "missing": [], "dirty": False, "unpulled": 0,
        "ignored_bytes": 0, "prerequisites": [record.base], "new_objects": int(has_commits),
    }  # fmt: skip
    has_files = _unpack_agent_files(ctx, record, part)
    saved_directory.write_meta(ctx.local_host, part, meta)
    saving.rename_to_final(ctx.local_host, part, target)
    store.release_name(ctx.home, record.name, record.id)
    note = _describe_recovered(record, error, known, at if has_commits else None, has_files)
    return RecoveredAgent(path=target, meta=meta, note=note)


def _adapt_record(ctx: Context, record: AgentRecord) -> AgentRecord:
    """For the restore: a mirror of a repository here that surely is the one it was made from, for it has its base."""
    repo = find_source_repo(ctx.local_host, record.source) if record.transfer == "mirror" and record.source else None
    if repo is None or not record.base or git.find_commit(ctx.local_host, repo.root, record.base) is None:
        return record if record.transfer != "worktree" else record.replace(transfer="mirror", source=None)
    return record.replace(transfer="worktree")  # its refs are the source's and its own branch, as a worktree's are


def _unpack_agent_files(ctx: Context, record: AgentRecord, part: str) -> bool:
    """The agent's own files; whether there are any. What it has of them is only its word, so they are checked."""
    path, agent = os.path.join(part, FILES_ARCHIVE), os.path.join(part, saved_directory.AGENT_DIR)
    try:
        if _get_file_size(path):
            tar.check_archive(path, only=(record.id,))
            tar.unpack(ctx.local_host, path, part)
            os.rmdir(agent)
            os.rename(os.path.join(part, record.id), agent)
    except (MngrError, OSError):
        ctx.local_host.run(["rm", "-rf", "--", os.path.join(part, record.id)])
        os.makedirs(agent, mode=0o700, exist_ok=True)
    ctx.local_host.run(["rm", "-f", "--", path])
    is_there = os.path.isfile(os.path.join(agent, "env"))
    if not is_there:
        given = environment.get_inherited_variables(ctx.get_agent_kind(record))
        ctx.local_host.write(os.path.join(agent, "env"), environment.format_env_file({}, given, {}))
    return is_there


def _describe_recovered(
    record: AgentRecord, error: HostGone, known: dict[str, Any] | None, at: str | None, has_files: bool
) -> str:
    """What is there of an agent, and what is not."""
    if at is not None and known is not None:
        age = clock.format_age(max(0.0, time.time() - float(known["at"])))
        there = f"{record.name} is at {at[:10]}, as it was kept {age} ago"
    else:
        there = f"{record.name} is at its base, for no commit of it was kept"
    lost = "what it had not committed is lost" if has_files else "its files and its conversation are lost"
    return f"{error.message}; {there}; {lost}"


def _restore_agent(ctx: Context, one: RecoveredAgent, host: Host) -> str:
    """Make an agent again, with its id and its name; what there is to say about it."""
    name = str(one.meta["name"])
    try:
        made = restore_agent(
            ctx,
            one.path,
            one.meta,
            RestoreRequest(operation="rescue", name=name, host=host, agent_id=one.meta["id"], set_up=True),
        )
    except MngrError as error:
        return f"{name} could not be made again: {error.message}; it is in the graveyard: mngr undestroy {name}"
    finish_restore(host, made.record)
    saving.remove_saved_directory(ctx, one.path)
    return "; ".join([one.note, *made.notes])


def _get_object_format(ctx: Context, record: AgentRecord) -> str:
    """How the commits of the repository that it comes from are named."""
    if record.source is None or not os.path.isdir(record.source):
        return "sha1"
    found = git.run(ctx.local_host, record.source, "rev-parse", "--show-object-format")
    return found.text if found.code == 0 else "sha1"


def _get_file_size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
