"""The transport of a host that an engine creates on demand."""

from __future__ import annotations

from mngr.base.errors import NotFound
from mngr.base.untrusted_json import get_object
from mngr.host import host_store
from mngr.host.remote_host import CommandStarter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mngr.base.errors import Unreachable
    from mngr.base.paths import Home
    from mngr.base.shell import ChildProcess
    from mngr.host.remote_host import Transport


class OnDemandTransport:
    """Uses the latest known facts for each command, because another process can restart the host in the meantime."""

    def __init__(
        self, home: Home, provider: str, host: str, open_transport: Callable[[dict[str, object]], Transport]
    ) -> None:
        self._home = home
        self._place = (provider, host)
        self._reach = open_transport
        self._facts: dict[str, object] | None = None
        self._opening = ""
        self._transports: list[Transport] = []

    def _get_current_transport(self) -> Transport:
        """Return the transport for the latest facts in the registry. Raise NotFound for an unknown host."""
        known = host_store.find_facts(self._home, *self._place)
        if known is not None:
            engine_facts = get_object(known.own, "engine")
            if engine_facts != self._facts or not self._transports:
                self._transports.append(self._reach(engine_facts))
                self._facts = engine_facts
                self._opening = known.opening
        if not self._transports:
            raise NotFound(f"{self._place[0]} has no host {self._place[1]!r}", "check the hosts: mngr list --hosts")
        return self._transports[-1]

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        transport = self._get_current_transport()
        return transport.build_argv(self._opening + program, terminal=terminal, only=only)

    def start_command(
        self, argv: Sequence[str], streams: tuple[int, int, int], timeout: float | None
    ) -> ChildProcess | None:
        """Start the command as the current transport does, or return None if a local process must run it."""
        transport = self._get_current_transport()
        return transport.start_command(argv, streams, timeout) if isinstance(transport, CommandStarter) else None

    def make_lost_error(self, stderr: str) -> Unreachable:
        return self._get_current_transport().make_lost_error(stderr)

    def close(self) -> None:
        for transport in self._transports:
            transport.close()
        self._transports.clear()
