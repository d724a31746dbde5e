"""The first words with a host: where its home is, what it has, how busy it is."""

from __future__ import annotations

from mngr.base import names, shell
from mngr.base.errors import MngrError, Unreachable
from mngr.base.fanout import map_parallel
from mngr.host import registry, remote_host, scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.base.paths import Home
    from mngr.host.protocol import Host
    from mngr.host.remote_host import Transport

PROBE_TIMEOUT = 30.0
REQUIRED_PROGRAMS = ("git", "tmux", "tar")
_UNFIT_CODE = 97  # the exit code of what came first
_NUMBER_FACTS = ("uid", "clock", "free", "load", "cpus", "agents")
_TEXT_FACTS = (
    "home", "login", "os", "boot", "git", "tmux", "flock", "python3", "rsync", "sshd",
    "stranger", "newer", "unwritable",
)  # fmt: skip


class HostUnfit(MngrError):
    """A host has not what agents need."""


def probe_host(
    wire: Transport, host: str, home: object = None, *, make: bool = False, first: str = "", last: str = ""
) -> dict[str, Any]:
    """Facts about a host; with `make` its home is there afterwards. MngrError says what is missing.

    `first` and `last` are programs to run before and after it; what the last one says is the fact `rest`.
    """
    words = [str(home or ""), "make"] if make else [str(home or "")]
    program = f"({scripts.read_program('hello.sh')}\n) || exit\n"
    if first:
        program = f"({first}\n) >&2 || exit {_UNFIT_CODE}\n{program}"
    if last:
        program += f"printf '\\0'\n{last}"
    result = remote_host.run(wire, ["sh", "-c", program, "hello.sh", *words], timeout=PROBE_TIMEOUT, name=host)
    if first and result.code == _UNFIT_CODE:
        raise MngrError(f"{host} cannot be used: {result.error_line}", "choose another image")
    said, _, rest = result.out.partition(b"\0")
    facts: dict[str, Any] = {"rest": rest} if last else {}
    missing: list[str] = []
    for line in said.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(" ")
        if key == "missing":
            missing.append(value)
        elif _is_fact(key, value):
            facts[key] = value
    if result.code or not facts.get("home", "").startswith("/") or "uid" not in facts:
        raise Unreachable(f"{host} does not answer as a host should: {result.error_line}", "it needs a POSIX sh")
    if "stranger" in facts:
        raise MngrError(
            f"{facts['home']} on {host} is the home of another program (it holds {facts['stranger']!r})",
            "choose another with the provider's setting `home`",
        )
    if "newer" in facts:
        raise MngrError(
            f"{facts['home']} on {host} was written by a newer mngr (layout {facts['newer']})", "update mngr"
        )
    if "unwritable" in facts:
        raise MngrError(
            f"{facts['home']} on {host} cannot be written to: {facts['unwritable']}",
            "choose another with the provider's setting `home`",
        )
    lacking = [name for name in REQUIRED_PROGRAMS if name in missing]
    if make and lacking:
        raise HostUnfit(f"{host} has no {', '.join(lacking)}", f"see how to get it: mngr doctor @{host}")
    return facts


def _is_fact(key: str, value: str) -> bool:
    """Whether this is what we asked for: a host can say anything, and its facts are kept beside our own."""
    if key in _NUMBER_FACTS:
        return names.is_number(value.replace(".", "", 1) if key == "load" else value)
    return key in _TEXT_FACTS and value.isprintable()


def ensure_home(home: Home, host: Host) -> None:
    """See to it that the host has a home for agents, and remember it; MngrError says what it lacks."""
    if host.is_local or registry.find_facts(home, host.provider, host.name) is not None:
        return
    assert isinstance(host, remote_host.RemoteHost)
    facts = prepare_host(host.transport, host.name, host.home.root)
    registry.save_facts(home, host.provider, host.name, facts)


def prepare_host(wire: Transport, host: str, home: object = None, first: str = "") -> dict[str, Any]:
    """Facts about a host that has a home for agents from now on, after the program `first`; MngrError says what it lacks."""
    facts = probe_host(wire, host, home, make=True, first=first, last=_ENVIRONMENT_SCRIPT)
    rows = facts.pop("rest").decode("utf-8", "surrogateescape").split("\0")
    env = {name: value for name, eq, value in (row.partition("=") for row in rows) if eq and value}
    return {**facts, "env": env}


def build_home_program(first: str, home: str, tag: str) -> str:
    """What a program begins with on a new host that is like one that was asked already: there is a home for agents then."""
    mark, words = shell.quote(f"{home}/cache/made-{tag}"), shell.quote(home)
    begin = f"({first}\n) && " if first else ""
    return f"[ -e {mark} ] || {{ {begin}({_HOME_SCRIPT.format(home=words, mark=mark)}); }} >&2 </dev/null || exit {_UNFIT_CODE}\n"


def run_home_program(wire: Transport, host: str, opening: str) -> None:
    """Run nothing else there; MngrError when the host cannot be used."""
    result = remote_host.run(wire, ["sh", "-c", opening + ":"], timeout=PROBE_TIMEOUT, name=host)
    if result.code:
        raise MngrError(f"{host} cannot be used: {result.error_line}", "choose another image")


# As in hello.sh, where nobody can have been before.
_HOME_SCRIPT = """umask 077; mkdir -p {home}/agents {home}/names {home}/work {home}/cache {home}/lib && cd {home} &&
{{ [ -e version ] || echo "mngr 1" >version; }} && : >{mark}"""


def select_shared_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Of the facts about a host, those that others with the same files share."""
    return {key: value for key, value in facts.items() if key not in _UNSHARED_FACTS}


_UNSHARED_FACTS = ("clock", "boot", "free", "load", "cpus", "agents")


# What every agent there needs to find its programs and its language: what a person who logs in there would have. His
# shell may say anything else besides.
_ENVIRONMENT_SCRIPT = """unset LC_ALL
for name in HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ; do
    eval "value=\\${$name-}"
    [ -z "$value" ] || printf '%s=%s\\0' "$name" "$value"
done
found=$("${SHELL:-sh}" -lc 'printf "\\n@%s@\\n" "$PATH"' 2>/dev/null </dev/null | sed -n 's/^@\\(.*\\)@$/\\1/p' | tail -n 1)
printf 'PATH=%s\\0' "${found:-$PATH}"
"""


def choose_least_loaded(hosts: list[str], wire: Callable[[str], Transport]) -> str:
    """The host with the most to spare, of those that answer; Unreachable when none does."""
    answers = map_parallel(lambda name: probe_host(wire(name), name), hosts, at_once=32)
    loads: list[tuple[float, str]] = []
    for name, answer in zip(hosts, answers, strict=True):
        if isinstance(answer, Exception):
            if not isinstance(answer, MngrError):
                raise answer
        else:
            loads.append((_compute_load(answer), name))
    if not loads:
        said = "; ".join(str(answer) for answer in answers[:3])
        raise Unreachable(f"none of {', '.join(hosts)} answers: {said}", "try again")
    return min(loads)[1]


def _compute_load(facts: dict[str, Any]) -> float:
    """Agents and load per processor: agents count too, for one that has just started shows no load yet."""
    try:
        return (float(facts["load"]) + float(facts.get("agents", 0))) / max(1.0, float(facts["cpus"]))
    except (KeyError, ValueError):
        return 1000.0
