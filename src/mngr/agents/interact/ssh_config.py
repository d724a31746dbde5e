"""`ssh-config`: entries with which ssh, rsync and editors reach every agent and host through `mngr pipe`."""

from __future__ import annotations

import os
import re
import sys
import zlib

from mngr.agents.context import Context
from mngr.agents.interact.pipe import format_host_alias, get_client_key, quote_path
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.paths import Home
from mngr.host import registry, store

HEADER = "# Made by `mngr ssh-config --write`, and again whenever an agent comes or goes; changes here are lost.\n"
_MAX_SOCKET_PATH_BYTES = 86  # bytes of the path of a socket, to which ssh adds 17 for a while
# The pipe is safe already, so the key exchange and the cipher are the quick ones.
_COMMON_OPTIONS = """\
Host *.mngr
    IdentityFile {key}
    IdentitiesOnly yes
    PreferredAuthentications publickey
    StrictHostKeyChecking yes
    GlobalKnownHostsFile /dev/null
    UpdateHostKeys no
    ForwardAgent no
    ForwardX11 no
    KexAlgorithms ^curve25519-sha256
    Ciphers ^aes128-gcm@openssh.com
    ControlMaster auto
    ControlPersist 60
"""


class SshEntry(Struct):
    """What ssh is told about one agent or host."""

    alias: str  # NAME.mngr or HOST.PROVIDER.mngr
    address: str
    agent: str | None = None
    host: str
    provider: str
    user: str | None = None
    control: str | None = None  # the socket of a connection that several commands share


def list_entries(ctx: Context) -> list[SshEntry]:
    """Every agent this home has a name for, and every other host that it has used. Asks nobody."""
    home = ctx.home
    if not home.exists():
        return []
    agents = []
    for name in store.list_names(home):
        place = store.find_host_of_name(home, name) or ("local", "local")
        control = _find_control_socket(home, place, store.find_id(home, name) or "")
        agents.append(_make_agent_entry(home, name, place).replace(address=name, agent=name, control=control))
    places = [(p, host) for p in registry.list_providers(home) for host in registry.list_hosts(home, p)]
    return agents + [_make_agent_entry(home, f"{host}.{provider}", (provider, host)) for provider, host in places]


def format_config(ctx: Context, entries: list[SshEntry]) -> str:
    """The entries as ssh reads them."""
    if "\n" in ctx.home.root:
        raise MngrError("the path of the home has a line end in it", "choose another home with --home")
    get_client_key(ctx.home)
    parts = [_format_entry(ctx.home, entry) for entry in entries]
    common = _COMMON_OPTIONS.format(key=quote_path(os.path.join(ctx.home.ssh, "id_ed25519")))
    return "\n".join([*parts, common])


def write_config(ctx: Context) -> str:
    """Put the entries in a file of ours for ssh to include; its path. From now on it follows the agents."""
    path = ctx.home.ssh_config
    ctx.home.create()
    before = os.stat(ctx.home.names).st_mtime_ns
    made = HEADER + format_config(ctx, list_entries(ctx))
    ctx.local_host.write(path, made.encode("utf-8", "surrogateescape"))
    os.utime(path, ns=(before, before))  # tells Context.are_ssh_entries_stale for which names it was made
    return path


def refresh_config(ctx: Context) -> None:
    """Write the entries again; a command does not fail because of them."""
    try:
        write_config(ctx)
    except (MngrError, OSError):
        pass


def _make_agent_entry(home: Home, name: str, place: tuple[str, str]) -> SshEntry:
    provider, host = place
    user, control = _find_user(home, provider, host), _find_control_socket(home, place)
    return SshEntry(alias=f"{name}.mngr", address=f"@{name}", host=host, provider=provider, user=user, control=control)


def _format_entry(home: Home, entry: SshEntry) -> str:
    known = registry.known_hosts_path(home, entry.provider, entry.host)
    lines = [
        f"Host {entry.alias}",
        f"ProxyCommand {_build_proxy_command(home, entry.address)}",
        f"HostKeyAlias {format_host_alias(entry.host, entry.provider)}",
        f"UserKnownHostsFile {quote_path(known)}",
    ]
    if entry.user:
        lines.append(f"User {entry.user}")
    if entry.control:
        lines.append(f"ControlPath {quote_path(entry.control)}")
    return "\n    ".join(lines) + "\n"


def _build_proxy_command(home: Home, address: str) -> str:
    """What ssh runs, by a shell, wherever it is called from."""
    beside = os.path.join(os.path.dirname(sys.executable), "mngr")
    words = [beside] if os.access(beside, os.X_OK) else [sys.executable, "-P", "-m", "mngr"]
    if home.root != os.path.join(os.path.expanduser("~"), ".mngr"):
        words += ["--home", home.root]
    return shell.join([*words, "pipe", address]).replace("%", "%%")


def _find_user(home: Home, provider: str, host: str) -> str | None:
    """The user there: no other is let in. What a host says of itself is not believed blindly."""
    if provider == "local":
        import pwd

        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            return None
    said = str((registry.find_facts(home, provider, host) or {}).get("login") or "")
    return said if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?", said) else None


def _find_control_socket(home: Home, place: tuple[str, str], agent_id: str = "") -> str | None:
    """A socket for this agent at this place: after a `migrate` it is another. None where its path would be too long."""
    path = os.path.join(home.ssh, f"{agent_id[2:]}{zlib.crc32('.'.join(place).encode()):08x}.c")
    return path if len(os.fsencode(path)) <= _MAX_SOCKET_PATH_BYTES else None
