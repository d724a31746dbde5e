"""Checks whether a host can isolate processes with bubblewrap, and names that isolation."""

from __future__ import annotations

import os
import sys

from mngr.agents.sandbox import scoped_sockets, seccomp
from mngr.agents.sandbox.bubblewrap import ISOLATION_FLAGS
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.shell import INSTALL_HINTS, ProgramMissing
from mngr.host.protocol import Host

NOT_INSTALLED = "bubblewrap (bwrap) is not installed"
KERNEL_FEATURES = "user namespaces, network namespaces, seccomp"  # bubblewrap fails where one of them is missing
_NOT_FOUND_CODE = 127
_ALLOW_NAMESPACES = (
    "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1"
    " (on Ubuntu: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0); GNU coreutils must be installed"
)


class SandboxUnavailable(MngrError):
    """A host cannot isolate processes, so mngr runs nothing there that must be isolated."""


class Isolation(Struct):
    """The isolation that a host offers: its name, or the problem and how to solve it."""

    name: str = ""
    problem: str = ""
    hint: str = ""


def check_isolation(host: Host) -> Isolation:
    """Start a sandbox on a host, and return the problem if that fails. The name stays empty."""
    argv = ["bwrap", *ISOLATION_FLAGS, "--ro-bind", "/", "/", "--proc", "/proc", "--seccomp", "0", "--"]
    try:
        result = host.run(
            [*argv, "/usr/bin/env", "--default-signal", "/bin/sh", "-c", ":"], stdin=seccomp.build_filter()
        )
    except ProgramMissing:
        return Isolation(problem=NOT_INSTALLED, hint=INSTALL_HINTS["bwrap"])
    if result.code == 0:
        return Isolation()
    if result.code == _NOT_FOUND_CODE:
        return Isolation(problem=NOT_INSTALLED, hint=INSTALL_HINTS["bwrap"])
    hint = _ALLOW_NAMESPACES
    if "unknown option" in result.error_line.lower():
        hint = "update bubblewrap to version 0.8 or newer: apt-get install bubblewrap"
    return Isolation(problem=f"bubblewrap does not work on this machine: {result.error_line}", hint=hint)


def inspect_isolation(host: Host) -> Isolation:
    """Return the isolation that a host offers, with its name, for example `bubblewrap 0.8.0, seccomp, …`."""
    isolation = check_isolation(host)
    if isolation.problem:
        return isolation
    version = host.run(["bwrap", "--version"]).text
    return isolation.replace(name=f"{version}, {KERNEL_FEATURES}")


# Connects to an abstract socket, and tells by its exit code whether it could.
_CONNECT = "import socket, sys; sys.exit(socket.socket(socket.AF_UNIX).connect_ex('\\0' + sys.argv[1]) != 0)"


def reaches_abstract_sockets(host: Host) -> bool:
    """True if the programs of a sandbox with the machine's network can reach its abstract unix sockets. Start one."""
    import socket

    name = f"mngr-{os.getpid()}-{os.urandom(8).hex()}"
    argv = ["bwrap", *ISOLATION_FLAGS, "--share-net", "--ro-bind", "/", "/", "--", *scoped_sockets.WORDS]
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen(1)
        return host.run([*argv, sys.executable, "-I", "-S", "-c", _CONNECT, name]).code == 0
