"""`doctor`: what a machine has, what it lacks, and how each lack is mended."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.base import clock, names
from mngr.base.errors import MngrError
from mngr.base.model import Record
from mngr.host import scripts
from mngr.host.protocol import ChecksOptions, Host, Leftovers
from mngr.plugins.loader import Hooks

OK, WARNING, ERROR = "ok", "warning", "error"
_PROGRAMS = ("git", "tmux", "tar", "awk", "find")
_WISHED = {
    "python3": "agents of kind player and mechanic need it, 3.9 or newer",
    "sshd": "ssh, rsync and editors reach agents here through it",
}
_VERSIONS = {"git": (2, 31), "tmux": (3, 2), "python3": (3, 9)}
_INSTALL = {"apk": "apk add", "pacman": "pacman -S"}  # all others: PROGRAM install
_PACKAGES = {
    "awk": {"apt-get": "mawk", "": "gawk"},
    "find": {"": "findutils"},
    "infocmp": {"apt-get": "ncurses-term", "apk": "ncurses-terminfo", "zypper": "terminfo", "": "ncurses"},
    "python3": {"brew": "python", "pacman": "python"},
    "sshd": {"brew": "openssh", "pacman": "openssh", "": "openssh-server"},
    "tar": {"brew": "gnu-tar"},
}
_SKEW = 2.0  # seconds
_LOW_KB = 1024 * 1024
_LOW_INODES = 10_000


class Check(Record):
    """One thing that was looked at."""

    name: str
    status: str = OK
    found: str | None = None
    problem: str | None = None
    hint: str | None = None


def doctor(
    ctx: Context, target: str | None = None, check_setting: Callable[[str, Any], None] | None = None
) -> list[Check]:
    """Look at this machine, at `@HOST`, at what makes hosts (`@.PROVIDER`), or at what agents of a kind need."""
    if target is not None and not target.startswith("@"):
        kind = ctx.kind(target, f"; a host has an @ before it: mngr doctor @{target}")
        checks = judge_programs(_ask(ctx.local, (*_PROGRAMS, *kind.programs)), (*_PROGRAMS, *kind.programs))
        install = getattr(kind, "install", "")
        return [
            c.replace(hint=f"get it: {install}")
            if c.status == ERROR and install and c.name in kind.programs
            else c
            for c in checks
        ]
    where = None if target is None else find.address(ctx, target)
    if (
        where is not None
        and where.host is None
        and where.provider
        and ctx.provider(where.provider).can_create_hosts
    ):
        return [_engine(ctx, where.provider)]
    host = ctx.local if where is None else find.get_host(ctx, where)
    before = time.time()
    facts = _ask(host, (*_PROGRAMS, *_WISHED))
    checks = [*judge_programs(facts, _PROGRAMS), *judge_place(facts, host.home.root)]
    if target is None:
        return [*checks, _home(ctx), _settings(ctx, check_setting), *_plugins(ctx)]
    return [
        *checks,
        judge_clock(facts, before, time.time()),
        _locks(facts),
        Check(name="home", found=host.home.root),
    ]


def _engine(ctx: Context, name: str) -> Check:
    """Whether hosts can be had of a provider: its settings make sense, and it answers."""
    try:
        provider = ctx.provider(name)
        if isinstance(provider, ChecksOptions):
            provider.check({})
        if isinstance(provider, Leftovers):
            provider.leftovers()
    except MngrError as error:
        return Check(name=name, status=ERROR, problem=error.message, hint=error.hint)
    return Check(name=name, found="it answers")


def _ask(host: Host, programs: tuple[str, ...]) -> dict[str, str]:
    argv = [
        "sh",
        "-c",
        scripts.program("doctor.sh"),
        "doctor.sh",
        host.home.root,
        host.socket,
        *programs,
    ]
    lines = host.run(argv, timeout=20.0).out.decode("utf-8", "replace").splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def judge_programs(facts: dict[str, str], needed: tuple[str, ...]) -> list[Check]:
    """Whether every program is there and new enough."""
    return [_program(facts, name) for name in needed]


def _program(facts: dict[str, str], name: str) -> Check:
    path = facts.get(f"program.{name}")
    hint = _install(facts, name)
    if path is None:
        return Check(name=name, status=ERROR, problem=f"{name} is not installed", hint=hint)
    said = facts.get(f"version.{name}", path)
    version = re.search(r"(\d+)\.(\d+)", said)
    wanted = _VERSIONS.get(name)
    if wanted and version and (int(version[1]), int(version[2])) < wanted:
        oldest = ".".join(str(n) for n in wanted)
        return Check(
            name=name, status=ERROR, found=said, problem=f"{said} is too old: {oldest} is needed", hint=hint
        )
    return Check(name=name, found=said)


def judge_place(facts: dict[str, str], home: str) -> list[Check]:
    """Room, terminal description and tmux server, from the facts of a host."""
    checks = [_wished(facts, name, problem) for name, problem in _WISHED.items()]
    if "terminfo" in facts:
        checks.append(Check(name="terminfo", found="tmux-256color"))
    else:
        problem = "tmux-256color is not described here, so programs may draw badly"
        checks.append(
            Check(name="terminfo", status=WARNING, problem=problem, hint=_install(facts, "infocmp"))
        )
    if "writable" not in facts:
        hint = "choose another home with --home or MNGR_HOME"
        checks.append(Check(name="writable", status=ERROR, problem=f"{home} cannot be written to", hint=hint))
    checks += [
        _room("disk", facts.get("free.kb"), _LOW_KB, lambda kb: f"{kb / 1024 / 1024:.1f} GB free"),
        _room("inodes", facts.get("free.inodes"), _LOW_INODES, lambda count: f"{count:,} free"),
        _server(facts),
    ]
    return checks


def _wished(facts: dict[str, str], name: str, problem: str) -> Check:
    if f"program.{name}" in facts:
        found = _program(facts, name)
        return found if found.status == OK else found.replace(status=WARNING)
    return Check(name=name, status=WARNING, problem=problem, hint=_install(facts, name))


def _room(name: str, free: str | None, low: int, show: Callable[[int], str]) -> Check:
    if free is None:
        return Check(name=name, found="not told by this file system")
    if int(free) < low:
        status = ERROR if int(free) < low // 20 else WARNING
        return Check(
            name=name,
            status=status,
            problem=f"only {show(int(free))}",
            hint="make room: mngr gc, mngr destroy",
        )
    return Check(name=name, found=show(int(free)))


def _server(facts: dict[str, str]) -> Check:
    if "stranger" in facts:
        problem = f"{facts['stranger']} belongs to somebody else, so the tmux server cannot use it"
        return Check(
            name="tmux server",
            status=ERROR,
            problem=problem,
            hint=f"have its owner remove {facts['stranger']}",
        )
    # A server ends with its last session, and leaves its socket behind.
    if "sessions" not in facts and "running" not in facts:
        return Check(name="tmux server", found="not running; the first agent starts it")
    if "sessions" not in facts:
        said = facts.get("server", "there is none")
        problem, hint = (
            f"agents should run, and it does not answer: {said}",
            "bring the agents back: mngr start NAME",
        )
        return Check(name="tmux server", status=WARNING, problem=problem, hint=hint)
    return Check(name="tmux server", found=f"answers, sessions: {facts['sessions']}")


def judge_clock(facts: dict[str, str], before: float, after: float) -> Check:
    """Whether a host that told its time between these two moments agrees with us."""
    told = facts.get("clock", "")
    if not names.is_number(told):
        return Check(name="clock", status=WARNING, problem="it does not tell its time")
    ahead = max(0.0, int(told) - after) or min(0.0, int(told) + 1 - before)
    if abs(ahead) <= _SKEW:
        return Check(name="clock", found="in step with ours")
    problem = f"it is {clock.age(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} ours; ages and limits are off by that"
    return Check(
        name="clock", status=WARNING, problem=problem, hint="set the host's clock: ntpd or chrony there"
    )


def _locks(facts: dict[str, str]) -> Check:
    return Check(
        name="locks", found=facts.get("program.flock", "links that name their owner; there is no flock")
    )


def _install(facts: dict[str, str], program: str) -> str:
    installer = facts.get("installer") or ("brew" if facts.get("system") == "Darwin" else "")
    packages = _PACKAGES.get(program, {})
    package = packages.get(installer) or packages.get("", program)
    if not installer:
        return f"install {package} with the system's package manager"
    return f"{_INSTALL.get(installer, f'{installer} install')} {package}"


def _home(ctx: Context) -> Check:
    try:
        used = ctx.home.exists()
    except MngrError as error:
        return Check(name="home", status=ERROR, problem=error.message, hint=error.hint)
    return Check(name="home", found=ctx.home.root if used else f"{ctx.home.root}, not used yet")


def _settings(ctx: Context, check: Callable[[str, Any], None] | None) -> Check:
    try:
        settings = ctx.settings
        for key, value in settings.values.items():
            if check is not None:
                check(key, value)
    except MngrError as error:
        return Check(
            name="settings", status=ERROR, problem=error.message, hint=error.hint or "see: mngr config list"
        )
    files = [os.path.basename(layer.path) for layer in settings.layers if layer.path]
    return Check(name="settings", found=", ".join(files) or "none, only defaults")


def _plugins(ctx: Context) -> list[Check]:
    checks = []
    for plugin in ctx.hooks.plugins:
        try:
            Hooks([plugin], ctx.home, ctx.note).manager()
        except MngrError as error:
            checks.append(
                Check(name=f"plugin {plugin.name}", status=ERROR, problem=error.message, hint=error.hint)
            )
        else:
            checks.append(Check(name=f"plugin {plugin.name}", found=plugin.package))
    return checks
