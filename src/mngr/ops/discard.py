"""Take everything of an agent away. Used where creation failed and after a destroyed agent was saved."""

from __future__ import annotations

from mngr import onhost, store, tmux
from mngr.ops.transfer import remove_work_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host import Host
    from mngr.model import AgentRecord
    from mngr.ops.context import Context


def discard(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Session, work dir, branch if nothing is on it, files, name; each step may be repeated."""
    end_processes(host, [record.id], grace=0.5, reason="discarded")
    if store.find_id(ctx.home, record.name) == record.id:  # else the name's holder made that work dir and branch
        remove_work_dir(host, record)
    host.run(["rm", "-rf", "--", host.home.agent(record.id)])
    store.release_name(ctx.home, record.name, record.id)


def end_processes(host: Host, ids: list[str], *, grace: float, reason: str) -> None:
    """End the sessions of these agents, all at once."""
    socket = tmux.socket_path(host.home)
    argv = ["sh", "-c", onhost.program("stop.sh"), "stop.sh", socket, host.home.root, f"{grace:g}", reason, *ids]
    host.run(argv, timeout=grace + 30.0)
