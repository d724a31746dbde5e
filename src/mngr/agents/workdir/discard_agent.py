"""Deletes everything of an agent without saving it, for example after a create that failed."""

from __future__ import annotations

import json
import os

from mngr.agents.workdir.transfer import remove_work_dir
from mngr.base.errors import MngrError, NotFound
from mngr.base.untrusted_json import as_list, parse_json
from mngr.host import agent_origin, git, record_store, scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

# The tree may contain directories that even their owner has no permission to enter.
REMOVE_TREE = 'rm -rf -- "$1" 2>/dev/null || { chmod -R u+rwX -- "$1"; rm -rf -- "$1"; }'
RESTORING_FILE = "restoring"  # lists the branches that an unfinished restore has created, with their commits


def discard_agent(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Delete the agent's session, work dir, files and name, and its branch if that holds no new commits.

    Each step can be repeated.
    """
    end_processes(host, [record.id], grace=0.5, reason="discarded")
    # If the name or the work dir belongs to another agent by now, the files there are not this agent's.
    # An agent on a remote host may belong to another client, so its name need not be known here.
    owns_name = not host.is_local or record_store.find_id(ctx.home, record.name) == record.id
    if owns_name and not is_work_dir_reused(host, record):
        restored_branches = _find_restored_branches(host, record)
        if restored_branches is None:
            remove_work_dir(host, record, undo=True)
        else:
            remove_work_dir(host, record.replace(branch_is_new=False), undo=True)
        for branch, oid in restored_branches or ():  # The saved directory still has these branches.
            git.run(
                host, record.source or "", "update-ref", "-d", f"refs/heads/{branch}", oid, git_command=git.SAFE_GIT
            )
    host.run(["sh", "-c", REMOVE_TREE, "rm", host.home.agent_dir(record.id)])
    record_store.release_name_everywhere(ctx.home, host, record.name, record.id)
    agent_origin.forget_origin(ctx.home, record)


def is_restore_unfinished(host: Host, record: AgentRecord) -> bool:
    """True when the agent is only half restored from a saved directory."""
    return host.has_path(os.path.join(host.home.agent_dir(record.id), RESTORING_FILE))


def finish_restore(host: Host, record: AgentRecord) -> None:
    """Mark the restore as finished, so that nothing undoes it any more."""
    host.run(["rm", "-f", "--", os.path.join(host.home.agent_dir(record.id), RESTORING_FILE)])


def is_work_dir_reused(host: Host, record: AgentRecord) -> bool:
    """True when another agent has the same work dir, created after this agent's was removed.

    It is never true with transfer mode `none`, where several agents may share the user's directory.
    """
    if record.transfer == "none":
        return False
    work_dir_json = f'"work_dir":{json.dumps(record.work_dir)}'.encode()
    if not host.is_local:
        line = 'cd "$1" && exec grep -lF -e "$2" /dev/null */agent.json'
        paths = host.run(["sh", "-c", line, "claimed", host.home.agents, work_dir_json.decode()]).text.split("\n")
        return any(path and path != f"{record.id}/agent.json" for path in paths)
    for agent_id in os.listdir(host.home.agents):
        is_incomplete = agent_id.startswith(record_store.INCOMPLETE_PREFIX)  # It has no work dir yet.
        if agent_id == record.id or is_incomplete:
            continue
        try:
            other_record = host.read(os.path.join(host.home.agent_dir(agent_id), "agent.json"))
        except MngrError:
            continue
        if work_dir_json in other_record:
            return True
    return False


def _find_restored_branches(host: Host, record: AgentRecord) -> list[tuple[str, str]] | None:
    """Return the branches that an unfinished restore has created, or None if this is not a restore."""
    try:
        rows = as_list(parse_json(host.read(os.path.join(host.home.agent_dir(record.id), RESTORING_FILE))))
    except NotFound:
        return None
    except ValueError:
        return []
    if not host.is_local:
        return []  # A restore on another host creates no branches, and there the agent could write this file.
    if not record.source or not host.has_path(record.source):
        return []
    return [(str(row[0]), str(row[1])) for row in rows if isinstance(row, list) and len(row) == 2]


def end_processes(host: Host, ids: list[str], *, grace: float, reason: str) -> None:
    """End the sessions of these agents, all at the same time."""
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
