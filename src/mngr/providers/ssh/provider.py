"""Hosts that mngr reaches with the installed `ssh` program, over one shared connection each."""

from __future__ import annotations

import os

from mngr.base import shell
from mngr.base.errors import MngrError, NotFound, Unreachable
from mngr.base.lock import Lock
from mngr.base.untrusted_json import as_list
from mngr.host import host_store, scripts
from mngr.host.remote_host import RemoteHost
from mngr.providers.shared import socket_paths
from mngr.providers.ssh import mux_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mngr.base.paths import Home
    from mngr.host.protocol import Host

PERSIST_SECONDS = 600  # an unused connection stays open for this time
MAX_MISSED_REPLIES = 3  # in a row; ssh asks for a reply after `alive` seconds of silence


class SshTransport:
    """The connection to one host. All commands share it, and ssh closes it when it is unused."""

    def __init__(self, destination: str, options: Mapping[str, object], login: str = "") -> None:
        self._destination = destination
        self._login = login  # the user's login shell on the host, if known
        config = options.get("config")
        self._config = ["-F", os.path.expanduser(str(config))] if config else []
        self._forwards = options.get("forward_agent") is True
        forward = "yes" if self._forwards else "no"
        name = f"{os.path.realpath(self._config[1]) if config else ''} {destination} {forward}"
        self._control = socket_paths.get_socket_path("c", name)
        self._options = [
            *self._config,
            *_build_option("ControlPath", self._control),
            *_build_option("BatchMode", "yes"),
            *_build_option("StrictHostKeyChecking", "yes"),
            *_build_option("ForwardAgent", forward),
            *_build_option("ForwardX11", "no"),
            *_build_option("ClearAllForwardings", "yes"),
            *_build_option("PermitLocalCommand", "no"),
            *_build_option("RequestTTY", "no"),
            *_build_option("LogLevel", "ERROR"),
        ]
        self._patience = [
            *_build_option("ConnectTimeout", str(options.get("connect_timeout") or 5)),
            *_build_option("ServerAliveInterval", str(options.get("alive") or 5)),
            *_build_option("ServerAliveCountMax", str(MAX_MISSED_REPLIES)),
        ]

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        if not socket_paths.has_socket(self._control):
            self._connect()
        # A terminal that stalls would stall the shared connection, so it gets its own connection.
        terminal_options = ["-tt", *_build_option("ControlPath", "none"), *self._patience] if terminal else ["-T"]
        words = [
            "ssh",
            *terminal_options,
            *_build_option("ControlMaster", "no"),
            *self._options,
            "--",
            self._destination,
        ]
        return [*words, scripts.format_one_line(program, only, self._login)]

    def start_command(
        self, argv: Sequence[str], streams: tuple[int, int, int], timeout: float | None
    ) -> mux_client.SshSession | None:
        """Start the command of `build_argv` over the shared connection, without an ssh process."""
        return mux_client.start_command(self._control, argv[-1], streams, timeout, forwards_agent=self._forwards)

    def make_lost_error(self, stderr: str) -> Unreachable:
        why = stderr.splitlines()[-1] if stderr else "the connection ended"
        return Unreachable(
            f"{self._destination}: {why}", "mngr does not know whether the command ran; see the agents: mngr list"
        )

    def close(self) -> None:
        pass  # The connection stays open for the next command.

    def _connect(self) -> None:
        """Start the shared connection. Raise Unreachable with ssh's message."""
        import tempfile

        socket_paths.make_socket_dir(self._control)
        master = [
            "ssh",
            "-f",
            "-N",
            "-M",
            "-T",
            *_build_option("ControlPersist", str(PERSIST_SECONDS)),
            *self._options,
        ]
        master += [*self._patience, "--", self._destination]
        with Lock(self._control + ".lock"), tempfile.TemporaryFile() as log:
            if os.path.exists(self._control):
                return  # Another process has connected meanwhile.
            # A pipe would not end, because the connection stays in the background and holds it open.
            process = shell.start_process(
                master, stdin=shell.DEVNULL, stdout=shell.DEVNULL, stderr=log, new_session=True
            )
            code = shell.wait_process(process)
            if code:
                log.seek(0)
                raise self._build_error(log.read().decode("utf-8", "replace").strip())

    def _build_error(self, stderr: str) -> Unreachable:
        """Return the error for a failed connection, with a hint that fits ssh's message."""
        why = stderr.splitlines()[-1] if stderr else "ssh could not connect"
        hint = f"see whether ssh works: ssh {self._destination} true"
        if "Host key verification failed" in stderr or "REMOTE HOST IDENTIFICATION" in stderr:
            why = "its host key is unknown or has changed"
            hint = f"check the host key, then accept it by connecting once: ssh {self._destination}"
        elif "Permission denied" in stderr:
            hint = f"load your key: ssh-add; or name it in ~/.ssh/config; then check it: ssh {self._destination} true"
        return Unreachable(f"{self._destination} cannot be reached: {why}", hint)


class SshProvider:
    """The hosts of the user's ssh configuration, or a pool of some of them."""

    can_create_hosts = False
    can_snapshot_hosts = False
    can_stop_hosts = False
    project_options = ("hosts",)  # the settings that a project may set for its users

    def __init__(self, name: str, home: Home, options: Mapping[str, object], *_: object) -> None:
        self.name = name
        self._home = home
        self._options = options
        self._pool = [str(host) for host in as_list(options.get("hosts"))]

    def list(self) -> list[str]:
        return host_store.list_hosts(self._home, self.name)

    def open(self, host: str) -> Host:
        if self._pool and host not in self._pool:
            raise NotFound(f"the provider {self.name} has no host {host!r}", "use one of: " + ", ".join(self._pool))
        facts = host_store.find_facts(self._home, self.name, host)
        if facts is not None:
            transport = SshTransport(host, self._options, facts.env.get("SHELL", ""))
            return RemoteHost(host, self.name, transport, facts.home, facts.uid)
        from mngr.providers.shared import host_preparation

        transport = SshTransport(host, self._options)
        answer = host_preparation.read_host_facts(transport, host, self._options.get("home"))
        return RemoteHost(host, self.name, transport, answer.home, answer.uid)

    def create(self, host: str | None, options: Mapping[str, object]) -> Host:
        if host is not None:
            return self.open(host)
        if not self._pool:
            raise MngrError(
                f"the provider {self.name} has no list of hosts to choose from",
                f"name a host: NAME@HOST; or list hosts: mngr config set providers.{self.name}.hosts '[\"HOST\"]'",
            )
        from mngr.providers.shared import host_preparation

        return self.open(
            host_preparation.choose_least_loaded(self._pool, lambda name: SshTransport(name, self._options))
        )

    def start(self, host: str) -> None:
        raise MngrError("mngr cannot start a host that it reaches by ssh", "start the machine yourself")

    def stop(self, host: str) -> None:
        raise MngrError("mngr cannot stop a host that it reaches by ssh", "stop its agents instead: mngr stop NAME")

    def destroy(self, host: str) -> None:
        raise MngrError(
            "mngr cannot destroy a host that it reaches by ssh", "destroy its agents instead: mngr destroy NAME"
        )


def _build_option(option: str, value: str) -> list[str]:
    return ["-o", f"{option}={value}"]
