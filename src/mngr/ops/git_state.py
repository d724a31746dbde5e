"""What git knows of an agent's work: how much nobody else has, and whether something is uncommitted."""

from __future__ import annotations

import os

from mngr import git
from mngr.errors import MngrError
from mngr.fanout import fanout
from mngr.ops import sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host import Host
    from mngr.model import AgentRecord, AgentView
    from mngr.ops.context import Context


def add_git(ctx: Context, agents: list[AgentView]) -> list[AgentView]:
    """The same agents with `unpulled` and `dirty` filled in where git can tell."""
    from mngr import store

    def one(agent: AgentView) -> AgentView:
        host = ctx.host(agent.provider, agent.host)
        record = store.load(host, agent.id)
        if record.transfer == "copy" or record.base is None or not os.path.isdir(record.work_dir):
            return agent
        there = sandbox.inside(host, record)
        guard = git.guard(there, record.work_dir) if record.transfer == "mirror" else ()
        dirty = bool(git.status(there, record.work_dir, guard))
        return agent.replace(dirty=dirty, unpulled=count_unpulled(host, record))

    answers = fanout(one, agents, at_once=4)
    return [
        agent if isinstance(answer, MngrError) else _sure(answer)
        for agent, answer in zip(agents, answers, strict=True)
    ]


def count_unpulled(host: Host, record: AgentRecord) -> int:
    """Commits of the agent that no branch of the user's has."""
    if record.transfer == "none" or record.base is None:
        return 0
    if record.transfer == "worktree":
        branch = f"--exclude={record.branch}" if record.branch_is_new else "--exclude="
        return git.count_commits(
            host,
            record.work_dir,
            ["HEAD", f"^{record.base}", "--not", branch, "--branches", "--tags", "--remotes"],
        )
    there = sandbox.inside(host, record)
    guard = git.guard(there, record.work_dir)
    made = git.run(there, record.work_dir, *guard, "rev-list", "HEAD", f"^{record.base}", "--").out
    if not made or record.source is None or not os.path.isdir(record.source):
        return made.count(b"\n")
    known = git.run(host, record.source, "cat-file", "--batch-check=%(objecttype)", stdin=made)
    return known.out.count(b" missing\n")


def _sure(answer: AgentView | Exception) -> AgentView:
    if isinstance(answer, Exception):
        raise answer
    return answer
