"""Start an agent's process in a session of our tmux server."""

from __future__ import annotations

import os

from mngr.agents.sandbox import bubblewrap
from mngr.base import names
from mngr.base.errors import MngrError
from mngr.base.shell import ProgramMissing, quote
from mngr.host import scripts, tmux
from mngr.host.batched_host import afterwards, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord
    from mngr.base.shell import Result
    from mngr.host.protocol import Host


_ENDED = 10  # what start.sh says when there is no agent to go on with


def settle(ctx: Context, host: Host) -> str:
    """Put on the host what outlives this command: programs and tmux's configuration; the directory of the programs."""
    source = ctx.settings.get("tmux.source")
    if host.is_here:
        tmux.prepare(host.home, source)
        return install_lib(host)
    if whole(host) in ctx.settled:
        return ctx.settled[whole(host)]
    version = scripts.kept_version()
    texts = [word for name in scripts.KEPT for word in (name, scripts.program(name).rstrip("\n"))]
    home, conf = host.home, tmux.configuration(source).rstrip("\n")
    argv = ["sh", "-c", scripts.program("settle.sh"), "settle.sh", home.lib, version, home.tmux_conf, conf]
    lib = os.path.join(home.lib, version)

    def check(result: Result) -> None:
        if result.code:
            said = f"cannot write to {home.root} on {host.name}: {result.problem}"
            raise MngrError(said, f"see: mngr doctor @{host.name}")
        ctx.settled[whole(host)] = lib

    afterwards(host, [*argv, home.socket_link, host.socket, *texts], check)
    return lib


def install_lib(host: Host) -> str:
    """Put the programs that outlive this command in a home on this machine; the directory they are in."""
    version = scripts.kept_version()
    place = os.path.join(host.home.lib, version)
    current = os.path.join(host.home.lib, "current")
    if not os.path.exists(os.path.join(place, "complete")):
        host.run(["mkdir", "-p", place])
        for name in scripts.KEPT:
            host.write(os.path.join(place, name), scripts.program(name).encode())
        host.write(os.path.join(place, "complete"), b"")
    if not os.path.islink(current) or os.readlink(current) != version:
        fresh = f"{current}.{os.getpid()}-{os.urandom(3).hex()}"
        os.symlink(version, fresh)
        os.replace(fresh, current)
    return place


def write_command(ctx: Context, host: Host, record: AgentRecord, *, resume: bool) -> None:
    """What the launch wrapper will run, quoted."""
    argv = ctx.kind_of(record).command(host, record, resume=resume)
    text = "set -- " + " ".join(quote(word) for word in argv) + "\n"
    host.write(os.path.join(host.home.agent(record.id), "command"), text.encode("utf-8", "surrogateescape"))
    bubblewrap.write(ctx, host, record)


def renew_login(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Bring the login that the user has by now to a coding agent that cannot see it."""
    from mngr.kinds.coding_agent import ProgramKind

    kind = ctx.kind_of(record)
    if isinstance(kind, ProgramKind) and (record.sandbox or not host.is_here):
        kind.log_in_again(bubblewrap.inside(host, record), record)


def launch(ctx: Context, host: Host, record: AgentRecord) -> int:
    """Start the session; returns the pid once the agent's process really runs."""
    found: list[int] = []
    settle(ctx, host)
    begin(ctx, host, record, found.append)
    return found[0]


def begin(ctx: Context, host: Host, record: AgentRecord, runs: Callable[[int], None]) -> None:
    """Start the session on a host where all is settled; `runs` is told the pid once the agent's process really runs."""
    lib = os.path.join(host.home.lib, scripts.kept_version())
    windows = [
        w for name, line in record.windows.items() for w in (tmux.word(name, is_format=True), tmux.word(line))
    ]
    directory = host.home.agent(record.id)
    argv = [
        "sh",
        "-c",
        scripts.program("start.sh"),
        "start.sh",
        host.socket,
        host.home.tmux_conf,
        lib,
        directory,
    ]
    argv += [record.name, tmux.word(record.work_dir, is_format=True), *windows]
    afterwards(host, argv, lambda result: runs(_pid(ctx, host, record, result)), timeout=60.0)


def _pid(ctx: Context, host: Host, record: AgentRecord, result: Result) -> int:
    """The agent's process, by what start.sh said; MngrError when it did not start."""
    if result.code == 127:
        raise ProgramMissing("tmux")
    if result.code == 9:
        raise MngrError(result.problem, "have its owner remove it; mngr makes it anew")
    if result.code not in (0, _ENDED):
        if b"duplicate session" in result.err:
            raise MngrError(f"a stray session called {record.name!r} is in the way", "mngr gc removes it")
        raise MngrError(f"the agent could not be started: {result.problem}", "see: mngr doctor")
    words = result.text.split()
    if words[:1] == ["running"] and len(words) == 2 and names.is_number(words[1]):
        return int(words[1])
    screen = [
        line for line in result.text.splitlines()[1:] if line.strip() and not line.startswith("Pane is dead")
    ]
    said = "; ".join(line.strip() for line in screen[-3:]) or "it ended at once"
    install = getattr(ctx.kind_of(record), "install", "")
    hint = "check the command and the agent's PATH"
    if install and host.is_here:
        hint = f"get it: {install}; then: mngr doctor {record.kind}"
    elif install:
        hint = f"get it on {host.name}, in the PATH of a login there: {install}"
    raise MngrError(f"the agent's command did not start: {said}", hint)
