"""An agent behind walls: everything of it is entered through bubblewrap, with a view of the machine made for it.

`agents/ID/sandbox`, which only we can write, holds the walls as a shell function; `enter.sh` goes through it, and so
does `inside`, for git and other programs of ours that read what the agent has written.
"""

from __future__ import annotations

import os

from mngr.base import names
from mngr.base.errors import Unreachable
from mngr.base.shell import ProgramMissing, get_absolute_search_path, join, quote
from mngr.host import git, scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

# As root only all of these together hold: any capability that is left can undo the rest.
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
# What an agent's program writes in the agent's directory.
_WRITABLE_FILES = ("status", "events.jsonl", "transcript.jsonl")

# `env` gives the signals back that the part outside ignores: those end the program inside, and it ends the rest.
# A file as standard input could be opened again, to write, so its contents come through a pipe.
_ENTER_FUNCTION = """\
# Made by mngr for every start. What enters here: enter.sh; and, alone and perhaps with a directory of ours to write to,
# mngr's own programs that look at the work dir.
_mngr_walls() {{
    for _mngr_file in {shared}; do
        [ -e "$_mngr_file" ] || (umask 077 && : >"$_mngr_file")
    done
    _mngr_how=--new-session
    if [ -t 0 ] && [ -z "${{_mngr_alone:-}}" ]; then _mngr_how=; fi
    set -- /usr/bin/env --default-signal "$@"
    [ -n "${{_mngr_alone:-}}" ] || set -- {within}"$@"
    set -- {closed}--seccomp 9 $_mngr_how -- "$@"
    [ -z "${{_mngr_also:-}}" ] || set -- --bind "$_mngr_also" "$_mngr_also" "$@"
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
    """Whether the agent is behind walls of ours."""
    return record.provider == "local" and (record.sandbox or record.network != "on")


def write_sandbox(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Put the walls down as they shall be from the next start on."""
    if not is_sandboxed(record):
        return
    from mngr.agents.sandbox import seccomp, visible_files

    directory = host.home.agent_dir(record.id)
    _make_private_home(host, directory)
    kind = ctx.get_agent_kind(record)
    shared = [os.path.join(directory, name) for name in (*_WRITABLE_FILES, *getattr(kind, "writes", ()))]
    if record.sandbox:
        path = host.run(["sh", "-c", '. "$1"; printf %s "$PATH"', "path", os.path.join(directory, "env")]).text
        program = (*kind.programs, *kind.command(host, record, resume=False))[0]
        show = [os.path.expanduser(p) for p in ctx.load_project_settings(None).get("sandbox.show") or []]
        words = visible_files.build_sandbox_args(
            host.home, record, shared, visible_files.list_program_paths(host.home, path, program), show
        )
    else:
        words = visible_files.build_network_only_args(host, record)
    text = _ENTER_FUNCTION.format(
        bwrap=quote(_find_bwrap()), shared=join(shared), words=join([*ISOLATION_FLAGS, *words]), filter=quote(os.path.join(directory, "seccomp")),
        closed="--remount-ro / " if record.sandbox else "", **_build_network_parts(host, record, directory),
    )  # fmt: skip
    host.write(os.path.join(directory, "seccomp"), seccomp.build_filter())
    host.write(os.path.join(directory, "sandbox"), text.encode("utf-8", "surrogateescape"))
    disable_fd_inheritance()


def _find_bwrap() -> str:
    """Where it is: nothing that the agent can write to may stand in front of it."""
    import shutil

    found = shutil.which("bwrap", path=get_absolute_search_path())
    if found is None:
        raise ProgramMissing("bwrap")
    return found


def _make_private_home(host: Host, directory: str) -> None:
    """A home of its own, in which the agent commits under the user's name."""
    place = os.path.join(directory, "home")
    if os.path.isdir(place):
        return
    os.mkdir(place, mode=0o700)
    for key in ("user.name", "user.email"):
        value = host.run(["git", "config", "--global", key])
        if value.code == 0:
            git.run_checked(host, place, "config", "--file", os.path.join(place, ".gitconfig"), key, value.text)


def _build_network_parts(host: Host, record: AgentRecord, directory: str) -> dict[str, str]:
    """What goes around bwrap, into its words and in front of the program, for the network that was asked for."""
    mode, places = names.parse_network(record.network)
    if mode != "allow":
        return {"around": "", "network": "--share-net " if mode == "on" else "", "within": ""}
    import sys

    from mngr.agents.sandbox import visible_files

    program = os.path.join(directory, "network_proxy.py")
    host.write(program, scripts.read_program_beside(__file__, "network_proxy.py").encode())
    gate = [os.path.realpath(sys.executable), "-I", "-S", program]
    rules = ",".join(f"{f'[{name}]' if ':' in name else name}:{'*' if port is None else port}" for name, port in places)
    words = [word for key in _PROXY_VARIABLES for word in ("--setenv", key, _PROXY_URL)]
    # Its own loopback it reaches itself; of ours, what it may reach comes through the proxy too.
    given = {name for name, _ in places}
    own = [name for name in ("localhost", "127.0.0.1", "::1") if name not in given]
    words += ["--setenv", "NO_PROXY", ",".join(own), "--setenv", "NODE_USE_ENV_PROXY", "1"]
    words += visible_files.build_python_args(gate[0])
    return {
        "around": join([*gate, directory, rules]) + " ",
        "network": join(words) + " ",
        "within": join([*gate, "in"]) + " ",
    }


def open_sandboxed_host(host: Host, record: AgentRecord, also: str = "") -> Host:
    """The host as the agent sees it, without any network: where our own programs may touch what it has written.

    `also` is a directory of ours that they may write to.
    """
    directory = host.home.agent_dir(record.id)
    if not is_sandboxed(record) or not record.sandbox or not host.has_path(os.path.join(directory, "env")):
        return host  # without its variables nothing of it has run yet
    from mngr.host.remote_host import RemoteHost

    disable_fd_inheritance()
    return RemoteHost(host.name, host.provider, _SandboxTransport(directory, also), host.home.root, os.getuid())


class _SandboxTransport:
    """How to start a command within an agent's walls. Nothing of our own environment comes along."""

    def __init__(self, directory: str, also: str) -> None:
        self._directory = directory
        self._also = also

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        line = '_mngr_alone=1 _mngr_also=$2; . "$1/sandbox" && shift 2 && _mngr_walls "$@"'
        words = ["env", "-i", f"PATH={get_absolute_search_path()}", "TERM=dumb", "sh", "-c", line, "inside"]
        clean = [] if only is None else ["env", "-i", *only]
        return [*words, self._directory, self._also, *clean, "sh", "-c", program]

    def make_lost_error(self, said: str) -> Unreachable:
        last = said.splitlines()[-1] if said else "it ended"
        return Unreachable(f"the sandbox could not be entered: {last}", "start the agent: that makes it anew")

    def close(self) -> None:
        pass


def disable_fd_inheritance() -> None:
    """Keep what this process has open from everything it starts from now on."""
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else ():
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                pass  # the listing's own
