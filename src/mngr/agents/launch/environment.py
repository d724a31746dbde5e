"""An agent's variables: what it is given and nothing else, in a file only its owner can read."""

from __future__ import annotations

import os
import re

from mngr.agents.sandbox import bubblewrap
from mngr.base.errors import MngrError, UsageError
from mngr.base.shell import quote
from mngr.host import registry
from mngr.kinds.coding_agent import ProgramKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord
    from mngr.base.paths import Home
    from mngr.host.protocol import Host

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_GIVEN = b"# given\n"  # where the host's part ends: an agent that moves gets that of its new host
_OWN = b"\nexport MNGR_AGENT_ID="  # where the agent's own part begins
_BASE = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


def gather(files: list[str], passed: list[str], given: list[str]) -> dict[str, str]:
    """What the user passes on: files first, then named variables of ours, then K=V."""
    found: dict[str, str] = {}
    for path in files:
        found.update(_read(path))
    for name in passed:
        _check(name)
        if name not in os.environ:
            raise MngrError(
                f"--pass-env: {name} is not set here", f"set it first, or give it with --env {name}=…"
            )
        found[name] = os.environ[name]
    for text in given:
        name, eq, value = text.partition("=")
        if not eq:
            raise UsageError(f"--env: {text!r} is not K=V", "to pass a variable of yours on: --pass-env K")
        found[_check(name)] = value
    return found


def base(home: Home, host: Host) -> dict[str, str]:
    """What every agent needs to find its programs and its language."""
    if not host.is_here:
        facts = registry.load(home, host.provider, host.name) or {}
        found = {str(name): str(value) for name, value in (facts.get("env") or {}).items()}
        return {name: value for name, value in found.items() if _NAME.fullmatch(name) and name[:5] != "MNGR_"}
    return {name: os.environ[name] for name in _BASE if os.environ.get(name)}


def own(ctx: Context, host: Host, record: AgentRecord) -> dict[str, str]:
    """What an agent finds about itself, and what its program needs."""
    directory = host.home.agent(record.id)
    return {
        "MNGR_AGENT_ID": record.id,
        "MNGR_AGENT_NAME": record.name,
        "MNGR_AGENT_DIR": directory,
        "MNGR_WORK_DIR": record.work_dir,
        "MNGR_OUTPUT_DIR": os.path.join(directory, "outputs"),
        "MNGR_BASE": record.base or "",
        "MNGR_BRANCH": record.branch or "",
        **({"MNGR_SANDBOX": "1"} if bubblewrap.is_needed(record) else {}),  # enter.sh goes by it
        **variables_of(ctx, host, record),
    }


def variables_of(ctx: Context, host: Host, record: AgentRecord) -> dict[str, str]:
    """What its kind wants it to find."""
    kind = ctx.kind_of(record)
    return kind.variables(host, record) if isinstance(kind, ProgramKind) else {}


def inherit(kind: object) -> dict[str, str]:
    """What a coding agent is given without a word: how it finds its model and its login, and what its settings say."""
    return kind.given() if isinstance(kind, ProgramKind) else {}


def compose(base: dict[str, str], given: dict[str, str], own: dict[str, str]) -> bytes:
    """The whole file: what the host gives, what the user gave, what the agent finds about itself."""
    return encode(base) + _GIVEN + encode({**given, **own})


def encode(variables: dict[str, str]) -> bytes:
    """A file for `.` of a POSIX shell; every value arrives as it is."""
    lines = [f"export {name}={quote(value)}" for name, value in variables.items()]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def _check(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a variable name", "letters, digits and _, not starting with a digit"
        )
    if name.startswith(("MNGR_", "_mngr_")):
        raise UsageError(f"{name} is set by mngr itself", "choose another name")
    return name


def _read(path: str) -> dict[str, str]:
    try:
        with open(os.path.expanduser(path), encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError as error:
        raise MngrError(f"--env-file: cannot read {path}: {error.strerror}", "check the path") from None
    found: dict[str, str] = {}
    lines = iter(enumerate(text.split("\n"), 1))
    for number, raw in lines:
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        name, eq, value = line.removeprefix("export ").partition("=")
        if not eq or not _NAME.fullmatch(name.strip()):
            raise MngrError(f"--env-file: {path}:{number} is not K=V", "one variable a line, # for comments")
        value = value.lstrip()
        if value[:1] in ("'", '"'):
            mark, value = value[0], value[1:]
            closed = re.compile(mark + r"\s*(?:\s#.*)?$")
            while not (
                end := closed.search(value.rpartition("\n")[2])
            ):  # a quoted value may go over several lines
                number, more = next(lines, (number, None))
                if more is None:
                    raise MngrError(
                        f"--env-file: {path}:{number}: a quote is not closed", f"close it with {mark}"
                    )
                value += "\n" + more
            value = value[: len(value) - len(end[0])]
        found[_check(name.strip())] = value
    return found


def refresh(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Bring what the agent finds about itself up to date, and keep the rest as it was given."""
    path = os.path.join(host.home.agent(record.id), "env")
    host.write(path, renew(host.read(path), own(ctx, host, record)))


def renew(text: bytes, own: dict[str, str], base: dict[str, str] | None = None) -> bytes:
    """The file with the agent's own part replaced and, if `base` is given, that of its host."""
    kept = text.rsplit(_OWN, 1)[0].rstrip(b"\n") + b"\n"
    if base is not None and _GIVEN in kept:
        kept = encode(base) + _GIVEN + kept.partition(_GIVEN)[2]
    return kept + encode(own)
