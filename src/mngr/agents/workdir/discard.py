"""Take everything of an agent away. Used where making one failed and after a destroyed one was saved."""

from __future__ import annotations

import json
import os

from mngr.agents.workdir.transfer import remove_work_dir
from mngr.base.errors import MngrError, NotFound
from mngr.host import git, scripts, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

# A directory in there may be one that not even its owner may enter.
REMOVE_TREE = 'rm -rf -- "$1" 2>/dev/null || { chmod -R u+rwX -- "$1"; rm -rf -- "$1"; }'
RESTORING_FILE = "restoring"  # names the branches that a restore under way has made, and where they stand


def discard_agent(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Session, work dir, branch if nothing is on it, files, name; each step may be repeated."""
    end_processes(host, [record.id], grace=0.5, reason="discarded")
    # A name that is another's, or a work dir that is another's by now: what is there is not this agent's.
    # On another host the agent may be known here by no name: another client's.
    is_mine = not host.is_local or store.find_id(ctx.home, record.name) == record.id
    if is_mine and not is_work_dir_reused(host, record):
        made = _find_restored_branches(host, record)
        remove_work_dir(host, record if made is None else record.replace(branch_is_new=False), undo=True)
        for branch, oid in made or ():  # they came out of a saved directory, which still has them
            git.run(host, record.source or "", "update-ref", "-d", f"refs/heads/{branch}", oid)
    host.run(["sh", "-c", REMOVE_TREE, "rm", host.home.agent_dir(record.id)])
    store.release_name_everywhere(ctx.home, host, record.name, record.id)
    store.forget_branch(ctx.home, record)


def is_restore_unfinished(host: Host, record: AgentRecord) -> bool:
    """Whether the agent is half made from a saved state."""
    return host.has_path(os.path.join(host.home.agent_dir(record.id), RESTORING_FILE))


def finish_restore(host: Host, record: AgentRecord) -> None:
    """The agent is to stay: from here on nothing undoes the restore."""
    host.run(["rm", "-f", "--", os.path.join(host.home.agent_dir(record.id), RESTORING_FILE)])


def is_work_dir_reused(host: Host, record: AgentRecord) -> bool:
    """Whether another agent has the same work dir, made after this one's was taken away; a directory of yours is for many."""
    if record.transfer == "none":
        return False
    wanted = f'"work_dir":{json.dumps(record.work_dir)}'.encode()
    if not host.is_local:
        line = 'cd "$1" && exec grep -lF -e "$2" /dev/null */agent.json'
        found = host.run(["sh", "-c", line, "claimed", host.home.agents, wanted.decode()]).text.split("\n")
        return any(path and path != f"{record.id}/agent.json" for path in found)
    for agent_id in os.listdir(host.home.agents):
        if agent_id != record.id and not agent_id.startswith(store.INCOMPLETE_PREFIX):  # it has no work dir yet
            try:
                if wanted in host.read(os.path.join(host.home.agent_dir(agent_id), "agent.json")):
                    return True
            except MngrError:
                continue
    return False


def _find_restored_branches(host: Host, record: AgentRecord) -> list[tuple[str, str]] | None:
    """Branches that a restore under way has made, and where; None when this is no restore."""
    try:
        made = json.loads(host.read(os.path.join(host.home.agent_dir(record.id), RESTORING_FILE)))
    except NotFound:
        return None
    except ValueError:
        return []
    return [(branch, oid) for branch, oid in made] if record.source and host.has_path(record.source) else []


def end_processes(host: Host, ids: list[str], *, grace: float, reason: str) -> None:
    """End the sessions of these agents, all at once."""
    socket = host.tmux_socket
    argv = [
        "sh",
        "-c",
        scripts.read_program("stop.sh"),
        "stop.sh",
        socket,
        host.home.root,
        f"{grace:g}",
        reason,
        *ids,
    ]
    host.run(argv, timeout=grace + 30.0)
