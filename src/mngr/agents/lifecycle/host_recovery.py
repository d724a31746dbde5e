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
from mngr.agents.saved.restore import Wish, restore
from mngr.agents.workdir.discard import settle
from mngr.agents.workdir.source import kept_repo
from mngr.base import clock
from mngr.base.errors import HostGone, MngrError, Unreachable
from mngr.base.fanout import fanout
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord, Record
from mngr.host import git, store
from mngr.host.protocol import Host, Keeps
from mngr.host.remote_host import PipeHost

T = TypeVar("T")


COMMITS, FILES = saving.BUNDLE, "agent.tar"  # what host.Keeps gives
LOCKS = 64  # files for the locks of all hosts
_AT_ONCE = 4  # agents


class Kept(Record):
    """An agent of a host that is gone, as far as it can be brought back."""

    place: str  # a saved directory, in the graveyard
    meta: dict[str, Any]
    note: str  # what is lost


def rescue(ctx: Context, error: HostGone) -> list[str]:
    """Make a host anew that is gone, and its agents, stopped; what there is to say of each."""
    number = zlib.crc32(f"{error.provider} {error.host}".encode()) % LOCKS
    with Lock(os.path.join(ctx.home.cache, f"rescue-{number}.lock"), timeout=3600):
        try:
            listing.look(ctx, ctx.host(error.provider, error.host))
            return []  # somebody else was faster
        except HostGone as still:
            error = still
        kept = save_all(ctx, error)
        removal.take_away(ctx, error.provider, error.host)
        provider = ctx.provider(error.provider)
        try:
            made = provider.create(error.host, {})
        except MngrError as problem:
            names = " ".join(one.meta["name"] for one in kept)
            raise type(problem)(problem.message, f"{problem.hint}; then: mngr undestroy {names}") from None
        host = ctx.host(error.provider, error.host)
        if isinstance(host, PipeHost) and isinstance(made, PipeHost):
            host.follow(made)
        ctx.settled.pop(host, None)
        return _all(fanout(lambda one: _bring_back(ctx, one, host), kept, at_once=_AT_ONCE))


def save_all(ctx: Context, error: HostGone) -> list[Kept]:
    """Put all agents of a host that is gone into the graveyard, as they are known elsewhere; their names are free then."""
    known = find_kept(ctx, error)
    agents = list_agents(ctx, error, known)
    return _all(fanout(lambda one: save(ctx, one, error, known.get(one.id)), agents, at_once=_AT_ONCE))


def _all(answers: list[T | Exception]) -> list[T]:
    """Each of them; the first that failed is raised."""
    found = []
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
        found.append(answer)
    return found


def list_agents(ctx: Context, error: HostGone, known: dict[str, dict[str, Any]]) -> list[AgentRecord]:
    """The agents that a host had: those it last showed, and those of which something was kept since."""
    found = {s.id: s.record for s in listing.last_seen(ctx, error) if s.record and s.record.phase == "ready"}
    for agent_id in known.keys() - found.keys():
        try:
            record = store.decode(json.dumps(known[agent_id].get("record")))
        except ValueError:
            continue  # it is only the host's word
        is_known = store.find_place(ctx.home, record.name) == (error.provider, error.host)
        if record.id == agent_id == store.find_id(ctx.home, record.name) and is_known:
            found[agent_id] = record
    return [found[agent_id] for agent_id in sorted(found)]


def find_kept(ctx: Context, error: HostGone) -> dict[str, dict[str, Any]]:
    """What the provider kept of each agent, if it keeps anything; Unreachable when it does not say now."""
    provider = ctx.provider(error.provider)
    try:
        return provider.kept(error.host) if isinstance(provider, Keeps) else {}
    except Unreachable as problem:
        why = f"what {error.provider} kept of {error.host} cannot be had now: {problem.message}"
        raise Unreachable(why, "try again") from None


def save(ctx: Context, record: AgentRecord, error: HostGone, known: dict[str, Any] | None) -> Kept:
    """A saved directory of what is known of an agent."""
    target = os.path.join(ctx.home.graveyard, record.id)
    part = target + saved_directory.PART
    ctx.local.run(["rm", "-rf", "--", part])
    os.makedirs(os.path.join(part, saved_directory.AGENT), mode=0o700)
    if known is not None:
        keeper: Any = ctx.provider(error.provider)
        keeper.fetch(error.host, record.id, part)
    at = str((known or {}).get("head") or record.base)
    has_commits = _size(os.path.join(part, COMMITS)) > 0
    if not has_commits:
        ctx.local.run(["rm", "-f", "--", os.path.join(part, COMMITS)])
        at = str(record.base)
    meta = {
        "v": 1, "id": record.id, "name": record.name, "at": clock.stamp(), "why": "host gone", "record": _record(ctx, record).to_dict(),
        "base": record.base, "saved": "git" if record.base else "none", "head": at, "branch": record.branch,
        "refs": {"HEAD": at, f"refs/heads/{record.branch}": at} if record.branch else {"HEAD": at},
        "form": (known or {}).get("form") or _form(ctx, record), "missing": [], "dirty": False, "unpulled": 0,
        "ignored_bytes": 0, "prerequisites": [record.base], "new_objects": int(has_commits),
    }  # fmt: skip
    has_files = _unpack(ctx, record, part)
    saved_directory.write_meta(ctx.local, part, meta)
    saving.publish(ctx.local, part, target)
    store.release_name(ctx.home, record.name, record.id)
    note = _note(record, error, known, at if has_commits else None, has_files)
    return Kept(place=target, meta=meta, note=note)


def _record(ctx: Context, record: AgentRecord) -> AgentRecord:
    """For the restore: a mirror of a repository here that surely is the one it was made from, for it has its base."""
    repo = kept_repo(ctx.local, record.source) if record.transfer == "mirror" and record.source else None
    if repo is None or not record.base or git.resolve(ctx.local, repo.root, record.base) is None:
        return record if record.transfer != "worktree" else record.replace(transfer="mirror", source=None)
    return record.replace(
        transfer="worktree"
    )  # its refs are the source's and its own branch, as a worktree's are


def _unpack(ctx: Context, record: AgentRecord, part: str) -> bool:
    """The agent's own files; whether there are any. What it has of them is only its word, so they are checked."""
    path, agent = os.path.join(part, FILES), os.path.join(part, saved_directory.AGENT)
    try:
        if _size(path):
            tar.check(path, only=(record.id,))
            tar.unpack(ctx.local, path, part)
            os.rmdir(agent)
            os.rename(os.path.join(part, record.id), agent)
    except (MngrError, OSError):
        ctx.local.run(["rm", "-rf", "--", os.path.join(part, record.id)])
        os.makedirs(agent, mode=0o700, exist_ok=True)
    ctx.local.run(["rm", "-f", "--", path])
    is_there = os.path.isfile(os.path.join(agent, "env"))
    if not is_there:
        given = environment.inherit(ctx.kind_of(record))
        ctx.local.write(os.path.join(agent, "env"), environment.compose({}, given, {}))
    return is_there


def _note(
    record: AgentRecord, error: HostGone, known: dict[str, Any] | None, at: str | None, has_files: bool
) -> str:
    """What is there of an agent, and what is not."""
    if at is not None and known is not None:
        age = clock.age(max(0.0, time.time() - float(known["at"])))
        there = f"{record.name} is at {at[:10]}, as it was kept {age} ago"
    else:
        there = f"{record.name} is at its base, for no commit of it was kept"
    lost = "what it had not committed is lost" if has_files else "its files and its conversation are lost"
    return f"{error.message}; {there}; {lost}"


def _bring_back(ctx: Context, one: Kept, host: Host) -> str:
    """Make an agent again, with its id and its name; what there is to say about it."""
    name = str(one.meta["name"])
    try:
        made = restore(
            ctx,
            one.place,
            one.meta,
            Wish(operation="rescue", name=name, host=host, agent_id=one.meta["id"], set_up=True),
        )
    except MngrError as error:
        return (
            f"{name} could not be made again: {error.message}; it is in the graveyard: mngr undestroy {name}"
        )
    settle(host, made.record)
    saving.remove_saved(ctx, one.place)
    return "; ".join([one.note, *made.notes])


def _form(ctx: Context, record: AgentRecord) -> str:
    """How the commits of the repository that it comes from are named."""
    if record.source is None or not os.path.isdir(record.source):
        return "sha1"
    found = git.run(ctx.local, record.source, "rev-parse", "--show-object-format")
    return found.text if found.code == 0 else "sha1"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
