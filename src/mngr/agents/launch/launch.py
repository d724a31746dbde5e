"""Starts an agent's process in a session of mngr's own tmux server."""

from __future__ import annotations

import os

from mngr.agents.sandbox import bubblewrap
from mngr.base import names_and_addresses
from mngr.base.errors import MngrError
from mngr.base.shell import ProgramMissing, quote
from mngr.host import agent_origin, scripts, tmux_server
from mngr.host.batched_host import FillNewDir, run_deferred, unwrap_host
from mngr.kinds.protocol import InstallableKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord
    from mngr.base.shell import ProcessResult
    from mngr.host.protocol import Host


_EXIT_NO_AGENT = 10  # the exit code of start.sh when the agent's process does not run


def install_on_host(ctx: Context, host: Host) -> str:
    """Install mngr's programs and its tmux configuration on the host. Return the programs' directory."""
    source = ctx.settings.get("tmux.source")
    if host.is_local:
        tmux_server.prepare_server_files(host.home, source)
        return install_local_programs(host)
    if unwrap_host(host) in ctx.installed_libs:
        return ctx.installed_libs[unwrap_host(host)]
    version = scripts.compute_installed_version()
    name_and_text_pairs = [
        word for name in scripts.INSTALLED_PROGRAMS for word in (name, scripts.read_program(name).rstrip("\n"))
    ]
    home, tmux_conf = host.home, tmux_server.build_configuration(source).rstrip("\n")
    argv = [
        "sh",
        "-c",
        scripts.read_program("install_programs.sh"),
        "install_programs.sh",
        home.lib,
        version,
        home.tmux_conf,
        tmux_conf,
    ]
    lib_dir = os.path.join(home.lib, version)

    def check_result(result: ProcessResult) -> None:
        if result.code:
            message = f"cannot write to {home.root} on {host.name}: {result.error_line}"
            raise MngrError(message, f"check the host: mngr doctor @{host.name}")
        ctx.installed_libs[unwrap_host(host)] = lib_dir

    run_deferred(host, [*argv, home.socket_link, host.tmux_socket, *name_and_text_pairs], check_result)
    return lib_dir


def install_local_programs(host: Host) -> str:
    """Install mngr's programs in a home on this machine. Return their directory."""
    version = scripts.compute_installed_version()
    lib_dir = os.path.join(host.home.lib, version)
    current = os.path.join(host.home.lib, "current")
    if not os.path.exists(os.path.join(lib_dir, "complete")):
        host.run(["mkdir", "-p", lib_dir])
        for name in scripts.INSTALLED_PROGRAMS:
            host.write(os.path.join(lib_dir, name), scripts.read_program(name).encode())
        host.write(os.path.join(lib_dir, "complete"), b"")
    if not os.path.islink(current) or os.readlink(current) != version:
        temporary = f"{current}.{os.getpid()}-{os.urandom(3).hex()}"
        os.symlink(version, temporary)
        os.replace(temporary, current)
    return lib_dir


def write_new_agent_files(ctx: Context, host: Host, record: AgentRecord, environment: bytes) -> None:
    """Write the environment, the kind's files and the command of an agent that has not run yet."""
    directory = host.home.agent_dir(record.id)
    with FillNewDir(host, directory):
        host.write(os.path.join(directory, "env"), environment)
        ctx.get_agent_kind(record).prepare(host, record)
        write_command(ctx, host, record, resume=False)


def write_command(ctx: Context, host: Host, record: AgentRecord, *, resume: bool) -> None:
    """Write the quoted command that the launch wrapper will run, and the sandbox around it."""
    bubblewrap.write_sandbox(ctx, host, record)
    # An agent that has run may have put links where the kind looks for its files.
    kind_host = bubblewrap.open_kind_host(ctx, host, record) if resume else host
    argv = ctx.get_agent_kind(record).command(kind_host, record, resume=resume)
    text = "set -- " + " ".join(quote(word) for word in argv) + "\n"
    host.write(os.path.join(host.home.agent_dir(record.id), "command"), text.encode("utf-8", "surrogateescape"))


def refresh_login(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Copy the user's current login to a coding agent that cannot read it itself."""
    from mngr.kinds.coding_agent import CodingAgentKind

    if not host.is_local and not agent_origin.has_known_kind(ctx.home, record):
        return  # The host wrote the record, and can call any program a coding agent.
    kind = ctx.get_agent_kind(record)
    if isinstance(kind, CodingAgentKind) and (record.sandbox or not host.is_local):
        kind.refresh_login(bubblewrap.open_sandboxed_host(host, record), record)


def launch_agent(ctx: Context, host: Host, record: AgentRecord) -> int:
    """Start the session and return the pid once the agent's process runs."""
    pids: list[int] = []
    install_on_host(ctx, host)
    start_session(ctx, host, record, pids.append)
    return pids[0]


def start_session(ctx: Context, host: Host, record: AgentRecord, on_started: Callable[[int], None]) -> None:
    """Start the session on a host where mngr's programs are installed. Pass the pid to `on_started` once it runs."""
    lib_dir = os.path.join(host.home.lib, scripts.compute_installed_version())
    windows = [
        word
        for name, line in record.windows.items()
        for word in (tmux_server.quote_word(name, is_format=True), tmux_server.quote_word(line))
    ]
    directory = host.home.agent_dir(record.id)
    argv = [
        "sh",
        "-c",
        scripts.read_program("start.sh"),
        "start.sh",
        host.tmux_socket,
        host.home.tmux_conf,
        lib_dir,
        directory,
    ]
    argv += [record.name, tmux_server.quote_word(record.work_dir, is_format=True), *windows]
    run_deferred(host, argv, lambda result: on_started(_get_started_pid(ctx, host, record, result)), timeout=60.0)


def _get_started_pid(ctx: Context, host: Host, record: AgentRecord, result: ProcessResult) -> int:
    """Return the pid of the agent's process from the result of start.sh. Raise MngrError when it did not start."""
    if result.code == 127:
        raise ProgramMissing("tmux")
    if result.code == 9:
        raise MngrError(result.error_line, "ask its owner to remove the directory; mngr then creates it again")
    if result.code not in (0, _EXIT_NO_AGENT):
        if b"duplicate session" in result.err:
            raise MngrError(
                f"tmux already has a session called {record.name!r} that belongs to no agent", "remove it: mngr gc"
            )
        raise MngrError(
            f"mngr could not start {record.name}: {result.error_line}", f"check the host: mngr doctor @{host.name}"
        )
    words = result.text.split()
    if words[:1] == ["running"] and len(words) == 2 and names_and_addresses.is_number(words[1]):
        return int(words[1])
    screen = [line for line in result.text.splitlines()[1:] if line.strip() and not line.startswith("Pane is dead")]
    last_lines = "; ".join(line.strip() for line in screen[-3:]) or "it ended immediately"
    kind = ctx.get_agent_kind(record)
    install = kind.install if isinstance(kind, InstallableKind) else ""
    hint = "check the command, and the PATH of the agent: mngr create NAME --env PATH=… -- COMMAND"
    if install and host.is_local:
        hint = f"install it: {install}; then check it: mngr doctor {record.kind}"
    elif install:
        hint = f"install it on {host.name}, in a directory of the login PATH there: {install}"
    raise MngrError(f"the command of {record.name} did not start: {last_lines}", hint)
