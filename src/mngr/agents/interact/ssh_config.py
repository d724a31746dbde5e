"""Writes ssh_config entries with which ssh, rsync and editors reach every agent and host through `mngr pipe`."""

from __future__ import annotations

import os
import re
import sys
import zlib

from mngr.agents.context import Context
from mngr.agents.interact.ssh_connection import format_host_alias, get_client_key, quote_path
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.paths import OTHER_HOME_HINT, Home
from mngr.host import host_store, record_store

HEADER = "# Written by `mngr ssh-config --write`. mngr writes it again whenever an agent is created or destroyed; your changes are lost.\n"
_MAX_SOCKET_PATH_BYTES = 86  # ssh temporarily adds 17 bytes to the path of a socket.
# mngr's connection is secure already, so the key exchange and the cipher are the fastest ones.
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
    """The ssh_config entry of one agent or host."""

    alias: str  # NAME.mngr or HOST.PROVIDER.mngr
    address: str
    agent: str | None = None
    host: str
    provider: str
    user: str | None = None
    control_socket: str | None = None  # the socket through which several commands share a connection


def list_entries(ctx: Context) -> list[SshEntry]:
    """Return an entry for every agent with a name in this home and for every known host. Contact no host."""
    home = ctx.home
    if not home.exists():
        return []
    agents = []
    for name in record_store.list_names(home):
        host_key = record_store.find_host_of_name(home, name) or ("local", "local")
        control_socket = _find_control_socket(home, host_key, record_store.find_id(home, name) or "")
        agents.append(
            _make_agent_entry(home, name, host_key).replace(address=name, agent=name, control_socket=control_socket)
        )
    host_keys = [
        (provider, host)
        for provider in host_store.list_providers(home)
        for host in host_store.list_hosts(home, provider)
    ]
    return agents + [_make_agent_entry(home, f"{host}.{provider}", (provider, host)) for provider, host in host_keys]


def format_config(ctx: Context, entries: list[SshEntry]) -> str:
    """Return the entries as ssh_config text."""
    if "\n" in ctx.home.root:
        raise MngrError(
            "the path of mngr's home contains a line break, which an ssh configuration cannot hold", OTHER_HOME_HINT
        )
    get_client_key(ctx.home)
    parts = [_format_entry(ctx.home, entry) for entry in entries]
    common = _COMMON_OPTIONS.format(key=quote_path(os.path.join(ctx.home.ssh, "id_ed25519")))
    return "\n".join([*parts, common])


def write_config(ctx: Context) -> str:
    """Write the entries to a file for ssh to include, and return its path. From then on mngr keeps the file current."""
    path = ctx.home.ssh_config
    ctx.home.create()
    names_mtime = os.stat(ctx.home.names).st_mtime_ns
    text = HEADER + format_config(ctx, list_entries(ctx))
    ctx.local_host.write(path, text.encode("utf-8", "surrogateescape"))
    os.utime(path, ns=(names_mtime, names_mtime))  # Context.is_ssh_config_stale compares these times.
    return path


def refresh_config(ctx: Context) -> None:
    """Write the entries again. Ignore errors, because they must not fail the user's command."""
    try:
        write_config(ctx)
    except (MngrError, OSError):
        pass


def _make_agent_entry(home: Home, name: str, host_key: tuple[str, str]) -> SshEntry:
    """Return the entry of a host, which is also the template for an agent's entry."""
    provider, host = host_key
    user, control_socket = _find_user(home, provider, host), _find_control_socket(home, host_key)
    return SshEntry(
        alias=f"{name}.mngr", address=f"@{name}", host=host, provider=provider, user=user, control_socket=control_socket
    )


def _format_entry(home: Home, entry: SshEntry) -> str:
    known_hosts = host_store.known_hosts_path(home, entry.provider, entry.host)
    lines = [
        f"Host {entry.alias}",
        f"ProxyCommand {_build_proxy_command(home, entry.address)}",
        f"HostKeyAlias {format_host_alias(entry.host, entry.provider)}",
        f"UserKnownHostsFile {quote_path(known_hosts)}",
    ]
    if entry.user:
        lines.append(f"User {entry.user}")
    if entry.control_socket:
        lines.append(f"ControlPath {quote_path(entry.control_socket)}")
    return "\n    ".join(lines) + "\n"


def _build_proxy_command(home: Home, address: str) -> str:
    """Return the shell command with which ssh starts `mngr pipe`, from any directory."""
    program = os.path.join(os.path.dirname(sys.executable), "mngr")
    words = [program] if os.access(program, os.X_OK) else [sys.executable, "-P", "-m", "mngr"]
    if home.root != os.path.join(os.path.expanduser("~"), ".mngr"):
        words += ["--home", home.root]
    return shell.join([*words, "pipe", address]).replace("%", "%%")


def _find_user(home: Home, provider: str, host: str) -> str | None:
    """Return the only user that may log in on a host, or None. Check a name that the host reported."""
    if provider == "local":
        import pwd

        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            return None
    facts = host_store.find_facts(home, provider, host)
    login = facts.login if facts is not None else ""
    return login if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?", login) else None


def _find_control_socket(home: Home, host_key: tuple[str, str], agent_id: str = "") -> str | None:
    """Return the socket path for an agent on this host, or None when the path would be too long.

    The path depends on the host, so an agent gets another one after `migrate`.
    """
    path = os.path.join(home.ssh, f"{agent_id[2:]}{zlib.crc32('.'.join(host_key).encode()):08x}.c")
    return path if len(os.fsencode(path)) <= _MAX_SOCKET_PATH_BYTES else None
