"""Checks a machine: what it has, what it lacks, and how to repair that."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.sandbox.host_isolation import inspect_isolation, reaches_abstract_sockets
from mngr.base import names_and_addresses, time_format
from mngr.base.errors import MngrError
from mngr.base.size_format import format_size
from mngr.host import scripts
from mngr.host.protocol import Host, LeftoverProvider, OptionChecker
from mngr.kinds.protocol import InstallableKind
from mngr.plugins.loader import LoadedPlugins
from mngr.setup.doctor_check import ERROR, OK, WARNING, DoctorCheck
from mngr.setup.project_checks import check_coding_agents, check_container_engines, check_project

_REQUIRED_PROGRAMS = ("git", "tmux", "tar", "awk", "find")
_OPTIONAL_PROGRAMS = {
    "python3": "python3 is not installed; agents of the kinds player and mechanic need version 3.9 or newer",
    "sshd": "sshd is not installed; ssh, rsync and editors need it to reach agents on this machine",
}
_MACHINE_PROGRAMS = (*_REQUIRED_PROGRAMS, *_OPTIONAL_PROGRAMS)
_MIN_VERSIONS = {"git": (2, 31), "tmux": (3, 2), "python3": (3, 9)}
_INSTALL_COMMANDS = {"apk": "apk add", "pacman": "pacman -S"}  # all others: PROGRAM install
_PACKAGE_NAMES = {
    "awk": {"apt-get": "mawk", "": "gawk"},
    "find": {"": "findutils"},
    "infocmp": {"apt-get": "ncurses-term", "apk": "ncurses-terminfo", "zypper": "terminfo", "": "ncurses"},
    "python3": {"brew": "python", "pacman": "python"},
    "sshd": {"brew": "openssh", "pacman": "openssh", "": "openssh-server"},
    "tar": {"brew": "gnu-tar"},
}
_MAX_CLOCK_SKEW = 2.0  # seconds
_MIN_FREE_KB = 1024 * 1024
_MIN_FREE_INODES = 10_000


def run_checks(
    ctx: Context, target: str | None = None, check_setting: Callable[[str, Any], None] | None = None
) -> list[DoctorCheck]:
    """Check this machine, `@HOST`, a provider (`@.PROVIDER`), or the programs that an agent kind needs.

    Without a target, also check the coding agents, the container engines and the current project.
    """
    if target is None:
        checks = _check_machine(_collect_facts(ctx.local_host, _MACHINE_PROGRAMS), ctx.local_host)
        checks += [_check_home(ctx), _check_settings(ctx, check_setting)]
        if checks[-1].status == OK:  # The other checks read the settings.
            checks += [*check_project(ctx), *check_coding_agents(ctx), *check_container_engines()]
        return [*checks, *_check_plugins(ctx)]
    if not target.startswith("@"):
        return _check_kind_programs(ctx, target)
    address = find.parse_address(ctx, target)
    if address.host is None and address.provider and ctx.get_provider(address.provider).can_create_hosts:
        return [_check_provider(ctx, address.provider)]
    host = find.get_host(ctx, address)
    started_at = time.time()
    facts = _collect_facts(host, _MACHINE_PROGRAMS)
    return [
        *_check_machine(facts, host),
        check_clock(facts, started_at, time.time()),
        _check_locks(facts),
        DoctorCheck(name="home", found=host.home.root),
    ]


def _check_kind_programs(ctx: Context, name: str) -> list[DoctorCheck]:
    """Check the programs that an agent kind needs, and say how to install those that are missing."""
    kind = ctx.get_kind(name, f"; a host has an @ before it: mngr doctor @{name}")
    programs = (*_REQUIRED_PROGRAMS, *kind.programs)
    checks = check_programs(_collect_facts(ctx.local_host, programs), programs)
    if not isinstance(kind, InstallableKind) or not kind.install:
        return checks
    hint = kind.install
    lacking = [check for check in checks if check.status == ERROR and check.name in kind.programs]
    return [check.replace(hint=hint) if check in lacking else check for check in checks]


def _check_machine(facts: dict[str, str], host: Host) -> list[DoctorCheck]:
    return [*check_programs(facts, _REQUIRED_PROGRAMS), *check_host(facts, host.home.root), *_check_isolation(host)]


def _check_isolation(host: Host) -> Iterator[DoctorCheck]:
    """Check that the host can run sandboxes, by running one, and name their isolation."""
    isolation = inspect_isolation(host)
    if not isolation.problem:
        yield DoctorCheck(name="sandbox", found=isolation.name)
        if host.is_local and reaches_abstract_sockets(host):
            problem = "with --network on, sandboxed programs can reach the abstract unix sockets of this machine"
            hint = "update to Linux 6.12 or newer with Landlock, or list the addresses: --network allow=HOST"
            yield DoctorCheck(name="sandbox sockets", status=WARNING, problem=problem, hint=hint)
        return
    problem = f"{isolation.problem}, so --sandbox and clean rooms do not work"
    yield DoctorCheck(name="sandbox", status=WARNING, problem=problem, hint=isolation.hint)


def _check_provider(ctx: Context, name: str) -> DoctorCheck:
    """Check that a provider's settings are valid and that the provider answers."""
    try:
        provider = ctx.get_provider(name)
        if isinstance(provider, OptionChecker):
            provider.check_options({})
        if isinstance(provider, LeftoverProvider):
            provider.list_leftovers()
    except MngrError as error:
        return DoctorCheck(name=name, status=ERROR, problem=error.message, hint=error.hint)
    return DoctorCheck(name=name, found="the provider answers")


def _collect_facts(host: Host, programs: tuple[str, ...]) -> dict[str, str]:
    """Return the facts that doctor.sh prints about a host and these programs."""
    argv = [
        "sh",
        "-c",
        scripts.read_program("doctor.sh"),
        "doctor.sh",
        host.home.root,
        host.tmux_socket,
        *programs,
    ]
    lines = host.run(argv, timeout=20.0).out.decode("utf-8", "replace").splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def check_programs(facts: dict[str, str], programs: tuple[str, ...]) -> list[DoctorCheck]:
    """Check that every program is installed and new enough."""
    return [_check_program(facts, name) for name in programs]


def _check_program(facts: dict[str, str], name: str) -> DoctorCheck:
    path = facts.get(f"program.{name}")
    hint = _format_install_hint(facts, name)
    if path is None:
        return DoctorCheck(name=name, status=ERROR, problem=f"{name} is not installed", hint=hint)
    version_text = facts.get(f"version.{name}", path)
    version = re.search(r"(\d+)\.(\d+)", version_text)
    min_version = _MIN_VERSIONS.get(name)
    if min_version and version and (int(version[1]), int(version[2])) < min_version:
        min_text = ".".join(str(n) for n in min_version)
        return DoctorCheck(
            name=name,
            status=ERROR,
            found=version_text,
            problem=f"{version_text} is too old; mngr needs {min_text} or newer",
            hint=hint,
        )
    return DoctorCheck(name=name, found=version_text)


def check_host(facts: dict[str, str], home: str) -> list[DoctorCheck]:
    """Check free space, the terminal description and the tmux server, from the facts of a host."""
    checks = [_check_optional_program(facts, name, problem) for name, problem in _OPTIONAL_PROGRAMS.items()]
    if "terminfo" in facts:
        checks.append(DoctorCheck(name="terminfo", found="tmux-256color"))
    else:
        problem = "the terminal description tmux-256color is missing, so programs may draw their screens wrongly"
        checks.append(
            DoctorCheck(name="terminfo", status=WARNING, problem=problem, hint=_format_install_hint(facts, "infocmp"))
        )
    if "writable" not in facts:
        hint = f"chmod u+w {home}; or use another home: mngr --home DIR doctor"
        checks.append(DoctorCheck(name="writable", status=ERROR, problem=f"mngr cannot write to {home}", hint=hint))
    checks += [
        _check_free_space("disk", facts.get("free.kb"), _MIN_FREE_KB, lambda kb: f"{format_size(kb * 1024)} free"),
        _check_free_space("inodes", facts.get("free.inodes"), _MIN_FREE_INODES, lambda count: f"{count:,} free"),
        _check_tmux_server(facts),
    ]
    return checks


def _check_optional_program(facts: dict[str, str], name: str, problem: str) -> DoctorCheck:
    """Check a program that only some features need: a problem is a warning."""
    if f"program.{name}" in facts:
        check = _check_program(facts, name)
        return check if check.status == OK else check.replace(status=WARNING)
    return DoctorCheck(name=name, status=WARNING, problem=problem, hint=_format_install_hint(facts, name))


def _check_free_space(name: str, free: str | None, minimum: int, format_amount: Callable[[int], str]) -> DoctorCheck:
    """Check that enough is free. Less than a twentieth of the minimum is an error."""
    if free is None:
        return DoctorCheck(name=name, found="this file system does not report it")
    if int(free) < minimum:
        status = ERROR if int(free) < minimum // 20 else WARNING
        return DoctorCheck(
            name=name,
            status=status,
            problem=f"only {format_amount(int(free))}",
            hint="mngr gc",
        )
    return DoctorCheck(name=name, found=format_amount(int(free)))


def _check_tmux_server(facts: dict[str, str]) -> DoctorCheck:
    if "stranger" in facts:
        problem = f"{facts['stranger']} belongs to another user, so the tmux server cannot use it"
        return DoctorCheck(
            name="tmux server",
            status=ERROR,
            problem=problem,
            hint=f"sudo rm -r {facts['stranger']}",
        )
    # The tmux server ends with its last session and leaves its socket behind.
    if "sessions" not in facts and "running" not in facts:
        return DoctorCheck(name="tmux server", found="not running; the first agent starts it")
    if "sessions" not in facts:
        answer = facts.get("server", "there is no server")
        problem = f"the tmux server does not answer, although agents should run: {answer}"
        hint = "mngr list --ids | mngr start -"
        return DoctorCheck(name="tmux server", status=WARNING, problem=problem, hint=hint)
    return DoctorCheck(name="tmux server", found=f"answers, sessions: {facts['sessions']}")


def check_clock(facts: dict[str, str], before: float, after: float) -> DoctorCheck:
    """Check that a host's clock, read between these two moments, agrees with this machine's."""
    host_time = facts.get("clock", "")
    if not names_and_addresses.is_number(host_time):
        return DoctorCheck(
            name="clock", status=WARNING, problem="the host does not report its time", hint="on the host, run: date"
        )
    ahead = max(0.0, int(host_time) - after) or min(0.0, int(host_time) + 1 - before)
    if abs(ahead) <= _MAX_CLOCK_SKEW:
        return DoctorCheck(name="clock", found="agrees with this machine's clock")
    difference = f"{time_format.format_age(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'}"
    problem = f"the host's clock is {difference} this machine's clock, so ages and time limits are wrong"
    return DoctorCheck(name="clock", status=WARNING, problem=problem, hint="on the host, run: timedatectl set-ntp true")


def _check_locks(facts: dict[str, str]) -> DoctorCheck:
    return DoctorCheck(
        name="locks", found=facts.get("program.flock", "mngr uses links as locks, because flock is not installed")
    )


def _format_install_hint(facts: dict[str, str], program: str) -> str:
    """Return the command that installs a program on this system."""
    installer = facts.get("installer") or ("brew" if facts.get("system") == "Darwin" else "")
    packages = _PACKAGE_NAMES.get(program, {})
    package = packages.get(installer) or packages.get("", program)
    if not installer:
        return f"install {package} with your package manager"
    return f"{_INSTALL_COMMANDS.get(installer, f'{installer} install')} {package}"


def _check_home(ctx: Context) -> DoctorCheck:
    try:
        exists = ctx.home.exists()
    except MngrError as error:
        return DoctorCheck(name="home", status=ERROR, problem=error.message, hint=error.hint)
    return DoctorCheck(name="home", found=ctx.home.root if exists else f"{ctx.home.root} (does not exist yet)")


def _check_settings(ctx: Context, check_setting: Callable[[str, Any], None] | None) -> DoctorCheck:
    try:
        settings = ctx.settings
        for key, value in [*settings.values.items(), *settings.list_ignored_values()]:
            if check_setting is not None:
                check_setting(key, value)
    except MngrError as error:
        return DoctorCheck(name="settings", status=ERROR, problem=error.message, hint=error.hint or "mngr config path")
    files = [os.path.basename(layer.path) for layer in settings.layers if layer.path]
    return DoctorCheck(name="settings", found=", ".join(files) or "no settings files; mngr uses the defaults")


def _check_plugins(ctx: Context) -> list[DoctorCheck]:
    checks = []
    for plugin in ctx.hooks.plugins:
        try:
            LoadedPlugins([plugin], ctx.home, ctx.note).find_plugin_manager()
        except MngrError as error:
            checks.append(
                DoctorCheck(name=f"plugin {plugin.name}", status=ERROR, problem=error.message, hint=error.hint)
            )
        else:
            checks.append(DoctorCheck(name=f"plugin {plugin.name}", found=plugin.package))
    return checks
