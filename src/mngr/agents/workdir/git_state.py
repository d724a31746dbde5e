"""Reads from git how many commits of an agent are not pulled, and whether it has uncommitted changes."""

from __future__ import annotations

import os

from mngr.agents.inspect import list as listing
from mngr.agents.sandbox import bubblewrap
from mngr.base import names_and_addresses
from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.base.model import Struct
from mngr.host import git, record_store, scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord, AgentView
    from mngr.host.protocol import Host

GIT_STATE_TIMEOUT = 120.0  # seconds for all agents of a host
_DIRTY_WORDS = {"dirty": True, "clean": False}


class GitState(Struct):
    """The state of an agent's work dir, as git reports it."""

    dirty: bool | None  # None if git cannot tell
    commits: int | None = None  # that no other branch has; None if the agent has its own repository
    own_commits: tuple[str, ...] = ()  # commits since the base, if the agent has its own repository


def add_git_state(ctx: Context, agents: list[AgentView]) -> list[AgentView]:
    """Return the same agents with `unpulled` and `dirty` set where git can tell."""
    ids_by_host: dict[tuple[str, str], list[str]] = {}
    for agent in agents:
        ids_by_host.setdefault((agent.provider, agent.host), []).append(agent.id)
    updated: dict[str, AgentView] = {}

    def query_host(address: tuple[str, str]) -> list[tuple[AgentRecord, GitState, int]]:
        host = ctx.get_host(*address)
        all_records = _list_records(ctx, host, ids_by_host[address])
        records = [record for record in all_records if record.transfer != "copy" and record.base]
        rows = []
        for record, state in zip(records, read_git_states(host, records), strict=True):
            if state is not None and state.dirty is not None:
                unpulled = _count_unpulled_commits(ctx.local_host, record, state)
                rows.append((record, state, unpulled))
        return rows

    by_id = {agent.id: agent for agent in agents}
    for rows in map_parallel(query_host, list(ids_by_host), at_once=32):
        if isinstance(rows, MngrError):
            continue  # Nothing is known of this host's agents.
        if isinstance(rows, Exception):
            raise rows
        for record, state, unpulled in rows:
            updated[record.id] = by_id[record.id].replace(dirty=state.dirty, unpulled=unpulled)
    return [updated.get(agent.id, agent) for agent in agents]


def _list_records(ctx: Context, host: Host, ids: list[str]) -> list[AgentRecord]:
    """Return the readable records of these agents, in one round trip to a remote host."""
    if not host.is_local:
        return [agent.record for agent in listing.observe_host(ctx, host, ids) if agent.record is not None]
    records = []
    for agent_id in ids:
        try:
            records.append(record_store.get_record(host, agent_id))
        except MngrError:
            continue
    return [record for record in records if record.id in ids]


def read_git_states(host: Host, records: list[AgentRecord]) -> list[GitState | None]:
    """Return what git reports in each work dir, or None where it cannot tell."""
    groups: dict[int, tuple[Host, list[AgentRecord]]] = {}
    for record in records:  # git runs inside the sandbox of each sandboxed agent.
        sandboxed_host = bubblewrap.open_sandboxed_host(host, record)
        groups.setdefault(id(sandboxed_host), (sandboxed_host, []))[1].append(record)
    states: dict[str, GitState] = {}
    for sandboxed_host, group in groups.values():
        states.update(_query_host(sandboxed_host, group))
    return [states.get(record.id) for record in records]


def _query_host(host: Host, records: list[AgentRecord]) -> dict[str, GitState]:
    """Return the git states by agent id, with one program call for all these agents."""
    words: list[str] = []
    for record in records:
        repo_word = "own" if record.transfer == "mirror" else "shared"
        words += [repo_word, record.work_dir, record.base or "", _get_branch_word(record)]
    result = host.run(
        ["sh", "-c", scripts.read_program("git_state.sh"), "git_state.sh", *words], timeout=GIT_STATE_TIMEOUT
    )
    states: dict[str, GitState] = {}
    for section in result.out.decode("ascii", "replace").split("agent ")[1:]:
        number, *lines = section.splitlines()
        if not lines or not names_and_addresses.is_number(number) or int(number) >= len(records):
            continue
        record = records[int(number)]
        states[record.id] = _parse_state(lines, has_own_repo=record.transfer == "mirror")
    return states


def _get_branch_word(record: AgentRecord) -> str:
    """Return the branch argument of git_state.sh: the agent's new branch, `-` for a worktree without one, or nothing."""
    if record.transfer != "worktree":
        return ""
    if record.branch_is_new and record.branch:
        return record.branch
    return "-"


def _parse_state(lines: list[str], *, has_own_repo: bool) -> GitState:
    """Return the state that git_state.sh printed: `dirty` or `clean`, then commits or their number."""
    dirty, rest = _DIRTY_WORDS.get(lines[0]), lines[1:]
    if has_own_repo:
        return GitState(dirty=dirty, own_commits=tuple(line for line in rest if len(line) in (40, 64)))
    has_count = bool(rest) and names_and_addresses.is_number(rest[0])
    return GitState(dirty=dirty, commits=int(rest[0]) if has_count else None)


def count_unpulled(host: Host, record: AgentRecord) -> int:
    """Return how many commits of the agent no branch of the user has."""
    if record.transfer == "none" or record.base is None:
        return 0
    (state,) = read_git_states(host, [record])
    return 0 if state is None else _count_unpulled_commits(host, record, state)


def _count_unpulled_commits(local: Host, record: AgentRecord, state: GitState) -> int:
    """Return how many of the agent's commits its source lacks, or all of them if the source is not local."""
    if state.commits is not None or not state.own_commits:
        return state.commits or 0
    if record.source is None or not local.is_local or not os.path.isdir(record.source):
        return len(state.own_commits)
    object_ids = "".join(f"{commit}\n" for commit in state.own_commits).encode()
    # The record of a remote agent may name any directory here as its source, even one with outputs of that agent.
    words = ("cat-file", "--batch-check=%(objecttype)")
    result = git.run(local, record.source, *words, stdin=object_ids, git_command=git.SAFE_GIT)
    return result.out.count(b" missing\n") if result.code == 0 else len(state.own_commits)
