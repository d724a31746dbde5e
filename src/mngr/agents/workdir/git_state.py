"""What git knows of an agent's work: how much nobody else has, and whether something is uncommitted."""

from __future__ import annotations

import os

from mngr.agents.inspect import list as listing
from mngr.agents.sandbox import bubblewrap
from mngr.base import names
from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.base.model import Struct
from mngr.host import git, scripts, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord, AgentView
    from mngr.host.protocol import Host

GIT_STATE_TIMEOUT = 120.0  # seconds for all agents of a host
_DIRTY_WORDS = {"dirty": True, "clean": False}
_SAFE_GIT_OPTIONS = ("-c", "core.fsmonitor=false", "-c", "protocol.allow=never")


class GitState(Struct):
    """What one agent has made."""

    dirty: bool | None  # None where git cannot tell
    commits: int | None = None  # that nobody else in its repository has; None where it is a repository of its own
    own_commits: tuple[str, ...] = ()  # the commits since its base, in a repository of its own


def add_git_state(ctx: Context, agents: list[AgentView]) -> list[AgentView]:
    """The same agents with `unpulled` and `dirty` filled in where git can tell."""
    places: dict[tuple[str, str], list[str]] = {}
    for agent in agents:
        places.setdefault((agent.provider, agent.host), []).append(agent.id)
    found: dict[str, AgentView] = {}

    def one(place: tuple[str, str]) -> list[tuple[AgentRecord, GitState, int]]:
        host = ctx.get_host(*place)
        records = [r for r in _list_records(ctx, host, places[place]) if r.transfer != "copy" and r.base]
        states = read_git_states(host, records)
        return [
            (record, state, _count_unpulled_commits(ctx.local_host, record, state))
            for record, state in zip(records, states, strict=True)
            if state is not None and state.dirty is not None
        ]

    by_id = {agent.id: agent for agent in agents}
    for answer in map_parallel(one, list(places), at_once=32):
        if isinstance(answer, Exception) and not isinstance(answer, MngrError):
            raise answer
        for record, state, unpulled in answer if isinstance(answer, list) else []:
            found[record.id] = by_id[record.id].replace(dirty=state.dirty, unpulled=unpulled)
    return [found.get(agent.id, agent) for agent in agents]


def _list_records(ctx: Context, host: Host, ids: list[str]) -> list[AgentRecord]:
    """Those that can be read, in one round trip."""
    if not host.is_local:
        return [seen.record for seen in listing.observe_host(ctx, host, ids) if seen.record is not None]
    records = []
    for agent_id in ids:
        try:
            records.append(store.get_record(host, agent_id))
        except MngrError:
            continue
    return [record for record in records if record.id in ids]


def read_git_states(host: Host, records: list[AgentRecord]) -> list[GitState | None]:
    """What git says in each work dir, in one go; None where it cannot tell."""
    groups: dict[int, tuple[Host, list[AgentRecord]]] = {}
    for record in records:  # those behind walls are asked there, each for itself
        where = bubblewrap.open_sandboxed_host(host, record)
        groups.setdefault(id(where), (where, []))[1].append(record)
    found: dict[str, GitState] = {}
    for where, some in groups.values():
        found.update(_query_host(where, some))
    return [found.get(record.id) for record in records]


def _query_host(host: Host, records: list[AgentRecord]) -> dict[str, GitState]:
    words: list[str] = []
    for record in records:
        own = record.transfer == "mirror"
        branch = "" if record.transfer != "worktree" else (record.branch if record.branch_is_new else "-") or "-"
        words += ["own" if own else "shared", record.work_dir, record.base or "", branch]
    result = host.run(["sh", "-c", scripts.read_program("state.sh"), "state.sh", *words], timeout=GIT_STATE_TIMEOUT)
    found: dict[str, GitState] = {}
    for part in result.out.decode("ascii", "replace").split("agent ")[1:]:
        number, *lines = part.splitlines()
        if not lines or not names.is_number(number) or int(number) >= len(records):
            continue
        record = records[int(number)]
        own = record.transfer == "mirror"
        count = int(lines[1]) if not own and len(lines) > 1 and names.is_number(lines[1]) else None
        made = tuple(line for line in lines[1:] if own and len(line) in (40, 64))
        found[record.id] = GitState(dirty=_DIRTY_WORDS.get(lines[0]), commits=count, own_commits=made)
    return found


def count_unpulled(host: Host, record: AgentRecord) -> int:
    """Commits of the agent that no branch of the user's has."""
    if record.transfer == "none" or record.base is None:
        return 0
    (state,) = read_git_states(host, [record])
    return 0 if state is None else _count_unpulled_commits(host, record, state)


def _count_unpulled_commits(here: Host, record: AgentRecord, state: GitState) -> int:
    """What the agent made, less what the repository has that it was made from, if that is on this machine."""
    if state.commits is not None or not state.own_commits:
        return state.commits or 0
    if record.source is None or not here.is_local or not os.path.isdir(record.source):
        return len(state.own_commits)
    asked = "".join(f"{commit}\n" for commit in state.own_commits).encode()
    known = git.run(here, record.source, *_SAFE_GIT_OPTIONS, "cat-file", "--batch-check=%(objecttype)", stdin=asked)
    return known.out.count(b" missing\n") if known.code == 0 else len(state.own_commits)
