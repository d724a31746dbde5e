"""First contact with a host: finds its home, its programs and its load, and creates the home."""

from __future__ import annotations

from mngr.base import names_and_addresses, shell
from mngr.base.errors import UPDATE_HINT, MngrError, Unreachable
from mngr.base.fanout import map_parallel
from mngr.base.model import Struct
from mngr.host import host_store, remote_host, scripts
from mngr.host.host_store import REPORTED_FACTS, HostFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.base.paths import Home
    from mngr.host.protocol import Host
    from mngr.host.remote_host import Transport

FACTS_TIMEOUT = 30.0
REQUIRED_PROGRAMS = ("git", "tmux", "tar")
_UNFIT_CODE = 97  # the exit code when the program before host_facts.sh fails
_NUMBER_FACTS = ("uid", "clock", "free", "load", "cpus", "agents")
_PROBLEMS = ("stranger", "newer", "unwritable")
_KNOWN_FACTS = ("home", "uid", "login", *REPORTED_FACTS, *_PROBLEMS)


class HostUnfit(MngrError):
    """A host lacks a program that agents need."""


class HostFactsAnswer(Struct):
    """What a host reports of itself."""

    facts: dict[str, str]  # always with `home` and `uid`
    output: bytes  # of the program that ran after host_facts.sh

    @property
    def home(self) -> str:
        return self.facts["home"]

    @property
    def uid(self) -> int:
        return int(self.facts["uid"])


def read_host_facts(
    transport: Transport, host: str, home: object = None, *, make: bool = False, first: str = "", last: str = ""
) -> HostFactsAnswer:
    """Return the facts about a host. Raise MngrError if the host cannot be used.

    With `make`, the host's home is created. The programs `first` and `last` run before and after host_facts.sh.
    """
    words = [str(home or ""), "make"] if make else [str(home or "")]
    program = f"({scripts.read_program('host_facts.sh')}\n) || exit\n"
    if first:
        program = f"({first}\n) >&2 || exit {_UNFIT_CODE}\n{program}"
    if last:
        program += f"printf '\\0'\n{last}"
    result = remote_host.run(
        transport, ["sh", "-c", program, "host_facts.sh", *words], timeout=FACTS_TIMEOUT, name=host
    )
    if first and result.code == _UNFIT_CODE:
        raise MngrError(f"mngr cannot use {host}: {result.error_line}", "choose another image: -b image=NAME")
    output, _, rest = result.out.partition(b"\0")
    rows = [line.partition(" ") for line in output.decode("utf-8", "replace").splitlines()]
    facts = {key: value for key, _, value in rows if _is_fact(key, value)}
    if result.code or not facts.get("home", "").startswith("/") or "uid" not in facts:
        raise Unreachable(
            f"mngr does not understand the answer of {host}: {result.error_line}",
            "check that its login shell prints nothing and that it has a POSIX sh",
        )
    _check_home(host, facts)
    missing_programs = {value for key, _, value in rows if key == "missing"}
    missing_required = [name for name in REQUIRED_PROGRAMS if name in missing_programs]
    if make and missing_required:
        raise HostUnfit(f"{host} has no {', '.join(missing_required)}", f"see how to install it: mngr doctor @{host}")
    return HostFactsAnswer(facts=facts, output=rest)


def _check_home(host: str, facts: dict[str, str]) -> None:
    """Raise MngrError if mngr cannot use the home on the host."""
    place = f"{facts['home']} on {host}"
    hint = "choose another directory: mngr config set providers.PROVIDER.home DIR"
    if "stranger" in facts:
        raise MngrError(f"{place} belongs to another program: it contains {facts['stranger']!r}", hint)
    if "newer" in facts:
        raise MngrError(f"a newer mngr wrote {place} (layout {facts['newer']})", UPDATE_HINT)
    if "unwritable" in facts:
        raise MngrError(f"cannot write to {place}: {facts['unwritable']}", hint)


def _is_fact(key: str, value: str) -> bool:
    """True when the line is a fact that host_facts.sh reports in a valid form. A host can send anything."""
    if key in _NUMBER_FACTS:
        return names_and_addresses.is_number(value.replace(".", "", 1) if key == "load" else value)
    return key in _KNOWN_FACTS and value.isprintable()


def ensure_home(home: Home, host: Host) -> None:
    """Create the home on the host unless mngr knows of one. Raise MngrError if the host lacks something."""
    if host.is_local or host_store.find_facts(home, host.provider, host.name) is not None:
        return
    assert isinstance(host, remote_host.RemoteHost)
    facts = prepare_host(host.transport, host.name, host.home.root)
    host_store.save_facts(home, host.provider, host.name, facts)


def prepare_host(transport: Transport, host: str, home: object = None, first: str = "") -> HostFacts:
    """Create the home on a host, after running the program `first`, and return the facts about the host.

    Raise MngrError if the host lacks something.
    """
    answer = read_host_facts(transport, host, home, make=True, first=first, last=_ENVIRONMENT_SCRIPT)
    rows = answer.output.decode("utf-8", "surrogateescape").split("\0")
    assignments = [row.partition("=") for row in rows]
    return HostFacts(
        home=answer.home,
        uid=answer.uid,
        login=answer.facts.get("login", ""),
        reported={key: value for key, value in answer.facts.items() if key in REPORTED_FACTS},
        env={name: value for name, _, value in assignments if value},
    )


def build_home_program(first: str, home: str, tag: str) -> str:
    """Return the start of a program that creates the home on a new host, unless that is done already.

    It is for a host with the same image as a known one, so mngr need not read its facts.
    """
    mark, quoted_home = shell.quote(f"{home}/cache/made-{tag}"), shell.quote(home)
    first_part = f"({first}\n) && " if first else ""
    return f"[ -e {mark} ] || {{ {first_part}({_HOME_SCRIPT.format(home=quoted_home, mark=mark)}); }} >&2 </dev/null || exit {_UNFIT_CODE}\n"


def run_home_program(transport: Transport, host: str, opening: str) -> None:
    """Run only the program of `build_home_program`. Raise MngrError if the host cannot be used."""
    result = remote_host.run(transport, ["sh", "-c", opening + ":"], timeout=FACTS_TIMEOUT, name=host)
    if result.code:
        raise MngrError(f"mngr cannot use {host}: {result.error_line}", "choose another image: -b image=NAME")


# Creates the home as host_facts.sh does, but without its checks, because the host is new.
_HOME_SCRIPT = """umask 077; mkdir -p {home}/agents {home}/names {home}/work {home}/cache {home}/lib && cd {home} &&
{{ [ -e version ] || echo "mngr 1" >version; }} && : >{mark}"""


def select_shared_facts(facts: HostFacts) -> HostFacts:
    """Return the facts that all hosts of the same image share."""
    return facts.replace(reported={key: value for key, value in facts.reported.items() if key not in _UNSHARED_FACTS})


_UNSHARED_FACTS = ("clock", "boot", "free", "load", "cpus", "agents")


# The environment of a person who logs in on the host, which agents need to find programs and the language.
# A login shell may print other text, so the PATH is marked by @.
_ENVIRONMENT_SCRIPT = """unset LC_ALL
for name in HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ; do
    eval "value=\\${$name-}"
    [ -z "$value" ] || printf '%s=%s\\0' "$name" "$value"
done
found=$("${SHELL:-sh}" -lc 'printf "\\n@%s@\\n" "$PATH"' 2>/dev/null </dev/null | sed -n 's/^@\\(.*\\)@$/\\1/p' | tail -n 1)
printf 'PATH=%s\\0' "${found:-$PATH}"
"""


def choose_least_loaded(hosts: list[str], open_transport: Callable[[str], Transport]) -> str:
    """Return the least loaded of the hosts that answer. Raise Unreachable when none answers."""
    answers = map_parallel(lambda name: read_host_facts(open_transport(name), name), hosts, at_once=32)
    loads: list[tuple[float, str]] = []
    for name, answer in zip(hosts, answers, strict=True):
        if isinstance(answer, Exception):
            if not isinstance(answer, MngrError):
                raise answer
        else:
            loads.append((_compute_load(answer.facts), name))
    if not loads:
        reasons = "; ".join(str(answer) for answer in answers[:3])
        raise Unreachable(
            f"none of the hosts {', '.join(hosts)} answers: {reasons}", "check the hosts: mngr list --hosts"
        )
    return min(loads)[1]


def _compute_load(facts: dict[str, str]) -> float:
    """Return load and agents per processor. Agents count because a new agent causes no load yet."""
    try:
        return (float(facts["load"]) + float(facts.get("agents", 0))) / max(1.0, float(facts["cpus"]))
    except (KeyError, ValueError):
        return 1000.0
