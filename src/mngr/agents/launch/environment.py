"""An agent's variables: what it is given and nothing else, in a file only its owner can read."""

from __future__ import annotations

import os
import re

from mngr.agents.sandbox import bubblewrap
from mngr.base.errors import MngrError, UsageError
from mngr.base.shell import quote
from mngr.host import registry
from mngr.kinds.coding_agent import CodingAgentKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord
    from mngr.base.paths import Home
    from mngr.host.protocol import Host

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_HOST_PART_END = b"# given\n"  # where the host's part ends: an agent that moves gets that of its new host
_AGENT_PART_START = b"\nexport MNGR_AGENT_ID="  # where the agent's own part begins
_INHERITED_NAMES = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


def collect_user_variables(files: list[str], passed: list[str], given: list[str]) -> dict[str, str]:
    """What the user passes on: files first, then named variables of ours, then K=V."""
    found: dict[str, str] = {}
    for path in files:
        found.update(_read_env_file(path))
    for name in passed:
        _check_variable_name(name)
        if name not in os.environ:
            raise MngrError(f"--pass-env: {name} is not set here", f"set it first, or give it with --env {name}=…")
        found[name] = os.environ[name]
    for text in given:
        name, eq, value = text.partition("=")
        if not eq:
            raise UsageError(f"--env: {text!r} is not K=V", "to pass a variable of yours on: --pass-env K")
        found[_check_variable_name(name)] = value
    return found


def get_host_variables(home: Home, host: Host) -> dict[str, str]:
    """What every agent needs to find its programs and its language."""
    if not host.is_local:
        facts = registry.find_facts(home, host.provider, host.name) or {}
        found = {str(name): str(value) for name, value in (facts.get("env") or {}).items()}
        return {name: value for name, value in found.items() if _VARIABLE_NAME.fullmatch(name) and name[:5] != "MNGR_"}
    return {name: os.environ[name] for name in _INHERITED_NAMES if os.environ.get(name)}


def build_agent_variables(ctx: Context, host: Host, record: AgentRecord) -> dict[str, str]:
    """What an agent finds about itself, and what its program needs."""
    directory = host.home.agent_dir(record.id)
    return {
        "MNGR_AGENT_ID": record.id,
        "MNGR_AGENT_NAME": record.name,
        "MNGR_AGENT_DIR": directory,
        "MNGR_WORK_DIR": record.work_dir,
        "MNGR_OUTPUT_DIR": os.path.join(directory, "outputs"),
        "MNGR_BASE": record.base or "",
        "MNGR_BRANCH": record.branch or "",
        **({"MNGR_SANDBOX": "1"} if bubblewrap.is_sandboxed(record) else {}),  # enter.sh goes by it
        **get_kind_variables(ctx, host, record),
    }


def get_kind_variables(ctx: Context, host: Host, record: AgentRecord) -> dict[str, str]:
    """What its kind wants it to find."""
    kind = ctx.get_agent_kind(record)
    return kind.build_variables(host, record) if isinstance(kind, CodingAgentKind) else {}


def get_inherited_variables(kind: object) -> dict[str, str]:
    """What a coding agent is given without a word: how it finds its model and its login, and what its settings say."""
    return kind.get_user_variables() if isinstance(kind, CodingAgentKind) else {}


def format_env_file(base: dict[str, str], given: dict[str, str], own: dict[str, str]) -> bytes:
    """The whole file: what the host gives, what the user gave, what the agent finds about itself."""
    return format_exports(base) + _HOST_PART_END + format_exports({**given, **own})


def format_exports(variables: dict[str, str]) -> bytes:
    """A file for `.` of a POSIX shell; every value arrives as it is."""
    lines = [f"export {name}={quote(value)}" for name, value in variables.items()]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def _check_variable_name(name: str) -> str:
    if not _VARIABLE_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a variable name", "letters, digits and _, not starting with a digit")
    if name.startswith(("MNGR_", "_mngr_")):
        raise UsageError(f"{name} is set by mngr itself", "choose another name")
    return name


def _read_env_file(path: str) -> dict[str, str]:
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
        if not eq or not _VARIABLE_NAME.fullmatch(name.strip()):
            raise MngrError(f"--env-file: {path}:{number} is not K=V", "one variable a line, # for comments")
        value = value.lstrip()
        if value[:1] in ("'", '"'):
            mark, value = value[0], value[1:]
            closed = re.compile(mark + r"\s*(?:\s#.*)?$")
            while not (end := closed.search(value.rpartition("\n")[2])):  # a quoted value may go over several lines
                number, more = next(lines, (number, None))
                if more is None:
                    raise MngrError(f"--env-file: {path}:{number}: a quote is not closed", f"close it with {mark}")
                value += "\n" + more
            value = value[: len(value) - len(end[0])]
        found[_check_variable_name(name.strip())] = value
    return found


def update_env_file(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Bring what the agent finds about itself up to date, and keep the rest as it was given."""
    path = os.path.join(host.home.agent_dir(record.id), "env")
    host.write(path, replace_agent_part(host.read(path), build_agent_variables(ctx, host, record)))


def replace_agent_part(text: bytes, own: dict[str, str], base: dict[str, str] | None = None) -> bytes:
    """The file with the agent's own part replaced and, if `base` is given, that of its host."""
    kept = text.rsplit(_AGENT_PART_START, 1)[0].rstrip(b"\n") + b"\n"
    if base is not None and _HOST_PART_END in kept:
        kept = format_exports(base) + _HOST_PART_END + kept.partition(_HOST_PART_END)[2]
    return kept + format_exports(own)
