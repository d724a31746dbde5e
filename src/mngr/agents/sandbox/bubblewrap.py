"""Runs an agent in a bubblewrap sandbox with its own view of the machine.

The file `agents/ID/sandbox`, which only mngr can write, holds the sandbox as a shell function. `run_in_work_dir.sh` uses it, and
so does `open_sandboxed_host`, for git and other programs of mngr that read files which the agent has written.
"""

from __future__ import annotations

import os

from mngr.base import names_and_addresses
from mngr.base.errors import Unreachable
from mngr.base.shell import ProgramMissing, get_path_without_relative_entries, join, quote
from mngr.host import git, scripts
from mngr.host.remote_host import RemoteHost
from mngr.kinds.protocol import FileWritingKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host
    from mngr.kinds.protocol import AgentKind

# For root, these flags protect only together, because any remaining capability can undo the others.
ISOLATION_FLAGS = (
    "--unshare-user",
    "--unshare-all",
    "--disable-userns",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
)
_PROXY_URL = "http://127.0.0.1:3128"  # where network_proxy.py listens
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
# The files in the agent's directory that its program may write.
_WRITABLE_FILES = ("status", "events.jsonl", "transcript.jsonl")

# `env` restores the signals that the part outside ignores. They end the program inside, and its end ends the rest.
# The agent could reopen a file on standard input for writing, so its contents come through a pipe.
_ENTER_FUNCTION = """\
# Written by mngr at every start of the agent. run_in_work_dir.sh runs the agent in it, and mngr runs its own git in it.
_mngr_sandbox() {{
    for _mngr_file in {shared}; do
        [ -e "$_mngr_file" ] || case $_mngr_file in
        */) mkdir -m 700 "$_mngr_file" ;;
        *) (umask 077 && : >"$_mngr_file") ;;
        esac
    done
    _mngr_how=--new-session
    if [ -t 0 ] && [ -z "${{_mngr_alone:-}}" ]; then _mngr_how=; fi
    set -- /usr/bin/env --default-signal "$@"
    [ -n "${{_mngr_alone:-}}" ] || set -- {within}"$@"
    set -- {closed}--seccomp 9 $_mngr_how -- "$@"
    [ -n "${{_mngr_alone:-}}" ] || set -- {network}"$@"
    set -- {bwrap} {words} "$@"
    [ -n "${{_mngr_alone:-}}" ] || set -- {around}"$@"
    exec 9<{filter}
    cd / # of all programs only those that are named by their whole path are started from here on
    trap '' INT QUIT TERM # not HUP: the end of the terminal is the end of it all, also while this starts
    if [ -f /dev/stdin ] || [ -d /dev/stdin ]; then
        command -p cat | "$@"
        exit
    fi
    exec "$@"
}}
"""


def is_sandboxed(record: AgentRecord) -> bool:
    """True when mngr runs the agent in a sandbox."""
    return record.provider == "local" and (record.sandbox or record.network != "on")


def write_sandbox(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Write the sandbox that applies from the agent's next start."""
    if not is_sandboxed(record):
        return
    from mngr.agents.sandbox import seccomp, visible_files

    directory = host.home.agent_dir(record.id)
    _make_private_home(host, directory)
    kind = ctx.get_agent_kind(record)
    writable_files = [os.path.join(directory, name) for name in _list_writable_names(kind)]
    if record.sandbox:
        path = host.run(["sh", "-c", '. "$1"; printf %s "$PATH"', "path", os.path.join(directory, "env")]).text
        program = kind.programs[0] if kind.programs else kind.command(host, record, resume=False)[0]
        shown_paths = [os.path.expanduser(p) for p in ctx.load_project_settings(None).get("sandbox.show") or []]
        bwrap_args = visible_files.build_sandbox_args(
            host.home, record, writable_files, visible_files.list_program_paths(host.home, path, program), shown_paths
        )
    else:
        bwrap_args = visible_files.build_network_only_args(host, record)
    text = _ENTER_FUNCTION.format(
        bwrap=quote(find_bwrap()),
        shared=join(writable_files),
        words=join([*ISOLATION_FLAGS, *bwrap_args]),
        filter=quote(os.path.join(directory, "seccomp")),
        closed="--remount-ro / " if record.sandbox else "",
        **_build_network_parts(host, record, directory),
    )
    host.write(os.path.join(directory, "seccomp"), seccomp.build_filter())
    host.write(os.path.join(directory, "sandbox"), text.encode("utf-8", "surrogateescape"))
    disable_fd_inheritance()


def _list_writable_names(kind: AgentKind) -> tuple[str, ...]:
    """Return the names in the agent's directory that its program may write. A directory ends with a slash."""
    return (*_WRITABLE_FILES, *(kind.written_names if isinstance(kind, FileWritingKind) else ()))


def find_bwrap() -> str:
    """Return the path of bwrap, only from directories that the agent cannot write to."""
    import shutil

    path = shutil.which("bwrap", path=get_path_without_relative_entries())
    if path is None:
        raise ProgramMissing("bwrap")
    return path


def _make_private_home(host: Host, directory: str) -> None:
    """Create the agent's own home directory, with the user's name and address for commits."""
    agent_home = os.path.join(directory, "home")
    if os.path.isdir(agent_home):
        return
    os.mkdir(agent_home, mode=0o700)
    for key in ("user.name", "user.email"):
        value = host.run(["git", "config", "--global", key])
        if value.code == 0:
            git.run_checked(
                host,
                agent_home,
                "config",
                "--file",
                os.path.join(agent_home, ".gitconfig"),
                key,
                value.text,
                git_command=git.ISOLATED_GIT,
            )


def _build_network_parts(host: Host, record: AgentRecord, directory: str) -> dict[str, str]:
    """Return the words for the requested network: around bwrap, among its options, and before the program inside."""
    mode, allowed_addresses = names_and_addresses.parse_network(record.network)
    if mode == "off":
        return {"around": "", "network": "", "within": ""}
    from mngr.agents.sandbox import scoped_sockets, visible_files

    if mode == "on":
        return {"around": "", "network": "--share-net ", "within": join(scoped_sockets.WORDS) + " "}
    import sys

    program = os.path.join(directory, "network_proxy.py")
    host.write(program, scripts.read_program_beside(__file__, "network_proxy.py").encode())
    proxy_argv = [os.path.realpath(sys.executable), "-I", "-S", program]
    rules = ",".join(
        f"{f'[{name}]' if ':' in name else name}:{'*' if port is None else port}" for name, port in allowed_addresses
    )
    bwrap_args = [word for key in _PROXY_VARIABLES for word in ("--setenv", key, _PROXY_URL)]
    # The sandbox reaches its own loopback directly. Allowed addresses of the host's loopback go through the proxy.
    allowed_names = {name for name, _ in allowed_addresses}
    own_loopback = [name for name in ("localhost", "127.0.0.1", "::1") if name not in allowed_names]
    bwrap_args += ["--setenv", "NO_PROXY", ",".join(own_loopback), "--setenv", "NODE_USE_ENV_PROXY", "1"]
    bwrap_args += visible_files.build_python_args(proxy_argv[0])
    return {
        "around": join([*proxy_argv, directory, rules]) + " ",
        "network": join(bwrap_args) + " ",
        "within": join([*proxy_argv, "in"]) + " ",
    }


def open_sandboxed_host(host: Host, record: AgentRecord) -> Host:
    """Return the host as the agent sees it, without a network. mngr's programs there can safely read the agent's files.

    They can write nothing that the agent cannot write: their results come back through a pipe.
    """
    directory = host.home.agent_dir(record.id)
    has_sandbox = host.is_local and is_sandboxed(record) and record.sandbox
    if not has_sandbox or not host.has_path(os.path.join(directory, "env")):
        return host  # Without its env file, the agent has never run.
    disable_fd_inheritance()
    return RemoteHost(host.name, host.provider, _SandboxTransport(directory), host.home.root, os.getuid())


def open_kind_host(ctx: Context, host: Host, record: AgentRecord) -> Host:
    """Return the host on which the kind may touch the files of an agent that has run before.

    The agent can put links everywhere in its own directories, so the kind's commands run in the sandbox.
    """
    if not host.is_local or not is_sandboxed(record) or not record.sandbox:
        return host
    disable_fd_inheritance()
    return _KindHost(host, host.home.agent_dir(record.id), _list_writable_names(ctx.get_agent_kind(record)))


class _KindHost(RemoteHost):
    """The inside of a sandbox. Only files beside the agent's own are written from outside: the agent cannot write them."""

    def __init__(self, host: Host, directory: str, writable_names: tuple[str, ...]) -> None:
        super().__init__(host.name, host.provider, _SandboxTransport(directory), host.home.root, os.getuid())
        self._outer = host
        self._directory = directory
        self._writable_names = frozenset(name.rstrip("/") for name in writable_names)

    def write(self, path: str, data: bytes, mode: int = 0o600) -> None:
        parent, name = os.path.split(path)
        if parent == self._directory and name not in self._writable_names:
            self._outer.write(path, data, mode)
        else:
            super().write(path, data, mode)


class _SandboxTransport:
    """Starts commands inside an agent's sandbox, without this process's environment."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        # `_mngr_also` gave a directory to the programs inside; sandboxes that an older mngr made still know it.
        line = '_mngr_alone=1 _mngr_also=; . "$1/sandbox" && shift && _mngr_sandbox "$@"'
        words = ["env", "-i", f"PATH={get_path_without_relative_entries()}", "TERM=dumb", "sh", "-c", line, "inside"]
        clean = [] if only is None else ["env", "-i", *only]
        return [*words, self._directory, *clean, "sh", "-c", program]

    def make_lost_error(self, stderr: str) -> Unreachable:
        reason = stderr.splitlines()[-1] if stderr else "bubblewrap ended without a message"
        return Unreachable(
            f"mngr could not enter the sandbox: {reason}",
            "start the agent again, which also recreates the sandbox: mngr start NAME",
        )

    def close(self) -> None:
        pass


def disable_fd_inheritance() -> None:
    """Keep all processes that start from now on from inheriting this process's open files."""
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else ():
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                pass  # The descriptor of the directory listing itself is closed by now.
