"""Serves one ssh connection to an agent or a host. mngr runs `sshd -i` over its own connection, so no port is open."""

from __future__ import annotations

import os
import re
import zlib

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.lock import Lock
from mngr.base.paths import Home
from mngr.host import host_store, scripts
from mngr.host.protocol import Host
from mngr.providers.shared import host_preparation

_SSHD_OPTIONS = (
    "AuthenticationMethods=publickey",
    "PasswordAuthentication=no",
    "KbdInteractiveAuthentication=no",
    "StrictModes=no",
    "PermitUserEnvironment=no",
    "PermitUserRC=no",
    "AllowTcpForwarding=yes",
    "AllowAgentForwarding=no",
    "X11Forwarding=no",
    "MaxSessions=100",
    "PrintMotd=no",
    "PrintLastLog=no",
    "LogLevel=ERROR",
)
_UNQUOTED_CHARS = str.maketrans("", "", "/._-")
_SESSION_ENVIRONMENT = 'TERM="${TERM:-dumb}" SSH_CONNECTION="$SSH_CONNECTION" ${SSH_TTY:+SSH_TTY="$SSH_TTY"}'


def serve_ssh_client_on_stdio(ctx: Context, address: str) -> int:
    """Serve an ssh client on this process's streams and return the exit code.

    Once data was sent, the only possible error is ConnectionLost.
    """
    host, agent_id = _get_target(ctx, address)
    key = get_client_key(ctx.home)
    _save_host_key(ctx, host)
    client = f"client-{zlib.crc32(key.encode()):08x}"
    options = [*_SSHD_OPTIONS, f"AuthorizedKeysFile={quote_path(os.path.join(host.home.ssh, client))}"]
    if agent_id is None:
        options.append("Subsystem=sftp internal-sftp")
    else:
        # SHLVL keeps bash from reading ~/.bashrc for every session, which would have no effect on the agent.
        options += [
            "Subsystem=sftp sftp-server",
            "SetEnv=SHLVL=1",
            f"ForceCommand={_build_session_command(host, agent_id)}",
        ]
    words = [word for option in options for word in ("-o", option)]
    code = host.run_attached([*_build_pipe_argv(host), "serve", client, key, *words])
    if code == 9:
        os.unlink(host_store.known_hosts_path(ctx.home, host.provider, host.name))
    _raise_for_exit_code(host, code, "")
    return code


def format_host_alias(host: str, provider: str) -> str:
    """Return the name under which ssh knows a host's key."""
    return f"{host}.{provider}.mngr".lower()


def get_client_key(home: Home) -> str:
    """Return the public key that hosts accept from this home. Create the key pair when it is first needed."""
    path = os.path.join(home.ssh, "id_ed25519")
    if not os.path.exists(path + ".pub"):
        home.create()
        os.makedirs(home.ssh, mode=0o700, exist_ok=True)
        with Lock(path + ".lock"):
            if not os.path.exists(path + ".pub"):
                _make_key(path)
    with open(path + ".pub", encoding="ascii") as file:
        return file.read().strip()


def build_refusal_packet(text: str) -> bytes:
    """Return the bytes that make an ssh client show why it is refused. Users often cannot see standard error."""
    reason = text.encode()[:1000]
    payload = b"\1" + (7).to_bytes(4, "big") + len(reason).to_bytes(4, "big") + reason + bytes(4)
    padding = 16 - (5 + len(payload)) % 8  # The length of the packet must be a multiple of 8.
    return (
        b"SSH-2.0-mngr\r\n"
        + (1 + len(payload) + padding).to_bytes(4, "big")
        + bytes([padding])
        + payload
        + bytes(padding)
    )


def quote_path(path: str) -> str:
    """Return a path quoted as one word of an ssh or sshd configuration, in which % is special."""
    if path.isascii() and path.translate(_UNQUOTED_CHARS).isalnum():
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def _get_target(ctx: Context, address: str) -> tuple[Host, str | None]:
    """Return the host that an address names, and the agent's id or None."""
    parsed = find.parse_address(ctx, address)
    if parsed.name is not None:
        return find.get_agent_location(ctx, address)
    host = find.get_host(ctx, parsed)
    host_preparation.ensure_home(ctx.home, host)
    return host, None


def _build_pipe_argv(host: Host) -> list[str]:
    return ["sh", "-c", scripts.read_program("pipe.sh"), "pipe.sh", host.home.ssh]


def _build_session_command(host: Host, agent_id: str) -> str:
    """Return the command that every session runs, whatever the client asks for. It enters the agent as `exec` does."""
    argv = ["sh", "-c", scripts.read_program("run_in_work_dir.sh"), "run_in_work_dir.sh", host.home.agent_dir(agent_id)]
    argv += ["sh", "-c", scripts.read_program("ssh_session.sh"), "ssh_session.sh"]
    return scripts.format_one_line(
        f'exec env -i {_SESSION_ENVIRONMENT} {shell.join(argv)} "${{SSH_ORIGINAL_COMMAND-}}"'
    )


def _save_host_key(ctx: Context, host: Host) -> None:
    """Save the host's key once. mngr's connection is trusted already, and from then on ssh requires this key."""
    path = host_store.known_hosts_path(ctx.home, host.provider, host.name)
    if os.path.exists(path):
        return
    result = host.run([*_build_pipe_argv(host), "key"], timeout=60.0)
    _raise_for_exit_code(host, result.code, result.error_line)
    key = re.match(r"ssh-ed25519 [A-Za-z0-9+/=]+(?= |$)", result.text)
    if result.code or key is None:
        raise MngrError(
            f"mngr cannot read the ssh host key of {host.name}: {result.error_line}",
            f"check the host: mngr doctor @{host.name}",
        )
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    ctx.local_host.write(path, f"{format_host_alias(host.name, host.provider)} {key[0]}\n".encode())


def _raise_for_exit_code(host: Host, code: int, stderr: str) -> None:
    """Raise MngrError for an exit code of pipe.sh that reports a known problem."""
    name, details = host.name, f": {stderr}" if stderr else ""
    if code == 3:
        hint = f"install openssh-server on {name}; see how: mngr doctor @{name}"
        raise MngrError(f"sshd is not installed on {name}", hint)
    if code == 4:
        raise MngrError(
            f"your user has no entry in /etc/passwd on {name}, and sshd needs one",
            f"add an entry for your user to /etc/passwd on {name}",
        )
    if code == 5:
        hint = f"run as root on {name}: mkdir -p /run/sshd; or use a user who is not root"
        raise MngrError(f"sshd does not work on {name}{details}", hint)
    if code == 6:
        raise MngrError(f"cannot write to {host.home.ssh} on {name}{details}", f"check the host: mngr doctor @{name}")
    if code == 9:
        raise MngrError(f"the ssh key of {name} no longer exists", "run the command again: mngr then creates a new key")


def _make_key(path: str) -> None:
    temporary = f"{path}.{os.getpid()}.new"
    result = shell.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "mngr", "-f", temporary])
    if result.code:
        raise MngrError(
            f"ssh-keygen could not create a key: {result.error_line}", shell.suggest_disk_check(os.path.dirname(path))
        )
    os.replace(temporary, path)
    os.replace(temporary + ".pub", path + ".pub")
