"""Writes an agent's environment variables to a file that only its owner can read."""

from __future__ import annotations

import os
import re

from mngr.agents.sandbox import bubblewrap
from mngr.agents.workdir.private_variables import HOST_PART_END, mark_private
from mngr.base.errors import MngrError, UsageError
from mngr.base.shell import quote
from mngr.host import host_store
from mngr.kinds.coding_agent import CodingAgentKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord
    from mngr.base.paths import Home
    from mngr.host.protocol import Host

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_AGENT_PART_START = b"\nexport MNGR_AGENT_ID="  # starts the part about the agent itself
_PYTHON_NAMES = ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PYTHONHOME")
_INHERITED_NAMES = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


def collect_user_variables(files: list[str], passed_names: list[str], given: dict[str, str]) -> dict[str, str]:
    """Return the user's variables: from env files, then passed on from this environment, then those given."""
    variables: dict[str, str] = {}
    for path in files:
        variables.update(_read_env_file(path))
    for name in passed_names:
        _check_variable_name(name)
        if name not in os.environ:
            raise MngrError(
                f"--pass-env: the variable {name} is not set",
                f"set it first: export {name}=VALUE; or give the value: --env {name}=VALUE",
            )
        variables[name] = os.environ[name]
    for name, value in given.items():
        variables[_check_variable_name(name)] = value
    return variables


def get_host_variables(home: Home, host: Host) -> dict[str, str]:
    """Return the host's variables that every agent needs, such as PATH, HOME and the language.

    A Python environment that is active on the host does not count: an agent gets the environment of its own work dir.
    """
    if not host.is_local:
        facts = host_store.find_facts(home, host.provider, host.name)
        variables: Mapping[str, str] = facts.env if facts is not None else {}
        names = [name for name in variables if _VARIABLE_NAME.fullmatch(name) and name[:5] != "MNGR_"]
    else:
        variables = os.environ
        names = [name for name in _INHERITED_NAMES if variables.get(name)]
    inherited = {name: variables[name] for name in names if name not in _PYTHON_NAMES}
    virtualenv = variables.get("VIRTUAL_ENV")
    if virtualenv and "PATH" in inherited:
        own_bin = os.path.join(virtualenv, "bin")
        kept = [folder for folder in inherited["PATH"].split(":") if folder.rstrip("/") != own_bin]
        inherited["PATH"] = ":".join(kept)
    return inherited


def build_agent_variables(ctx: Context, host: Host, record: AgentRecord) -> dict[str, str]:
    """Return the variables that describe the agent, and those that its program needs."""
    directory = host.home.agent_dir(record.id)
    return {
        "MNGR_AGENT_ID": record.id,
        "MNGR_AGENT_NAME": record.name,
        "MNGR_AGENT_DIR": directory,
        "MNGR_WORK_DIR": record.work_dir,
        "MNGR_OUTPUT_DIR": os.path.join(directory, "outputs"),
        "MNGR_BASE": record.base or "",
        "MNGR_BRANCH": record.branch or "",
        **({"MNGR_SANDBOX": "1"} if bubblewrap.is_sandboxed(record) else {}),  # run_in_work_dir.sh reads it.
        **get_kind_variables(ctx, host, record),
    }


def get_kind_variables(ctx: Context, host: Host, record: AgentRecord) -> dict[str, str]:
    """Return the variables that the agent's kind sets."""
    kind = ctx.get_agent_kind(record)
    return kind.build_variables(host, record) if isinstance(kind, CodingAgentKind) else {}


def get_inherited_variables(kind: object) -> dict[str, str]:
    """Return the user's variables that a coding agent always gets: for its model, its login and its settings."""
    return kind.get_user_variables() if isinstance(kind, CodingAgentKind) else {}


def format_env_file(
    host_variables: dict[str, str],
    user_variables: dict[str, str],
    agent_variables: dict[str, str],
    private_names: Collection[str] = (),
) -> bytes:
    """Return the env file: the host's variables, the user's, and those about the agent.

    `private_names` are the user's variables that the project's set-up must not see.
    """
    private = {name: value for name, value in user_variables.items() if name in private_names}
    others = {name: value for name, value in user_variables.items() if name not in private}
    user_part = mark_private(format_exports(private)) + format_exports({**others, **agent_variables})
    return format_exports(host_variables) + HOST_PART_END + user_part


def format_exports(variables: dict[str, str]) -> bytes:
    """Return the variables as a file for `.` of a POSIX shell. Every value is quoted."""
    lines = [f"export {name}={quote(value)}" for name, value in variables.items()]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def _check_variable_name(name: str) -> str:
    """Return the name if the user may set this variable, otherwise raise UsageError."""
    if not _VARIABLE_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid variable name", "use letters, digits and _, and do not start with a digit"
        )
    if name.startswith(("MNGR_", "_mngr_")):
        raise UsageError(f"mngr itself sets the variable {name}", "choose another name for your variable")
    return name


def _read_env_file(path: str) -> dict[str, str]:
    """Return the variables of an env file. Raise MngrError for a line that is not K=V."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError as error:
        raise MngrError(f"--env-file: cannot read {path}: {error.strerror}", f"check the path: ls -l {path}") from None
    variables: dict[str, str] = {}
    lines = iter(enumerate(text.split("\n"), 1))
    for number, raw_line in lines:
        line = raw_line.strip()
        if not line or line.startswith("#"):
            continue
        name, separator, value = line.removeprefix("export ").partition("=")
        if not separator or not _VARIABLE_NAME.fullmatch(name.strip()):
            raise MngrError(
                f"--env-file: line {number} of {path} does not have the form K=V",
                "write one variable on each line; comments start with #",
            )
        value = value.lstrip()
        if value[:1] in ("'", '"'):
            quote_mark, value = value[0], value[1:]
            closing_quote = re.compile(quote_mark + r"\s*(?:\s#.*)?$")
            while not (
                end := closing_quote.search(value.rpartition("\n")[2])
            ):  # A quoted value may span several lines.
                number, next_line = next(lines, (number, None))
                if next_line is None:
                    raise MngrError(
                        f"--env-file: line {number} of {path} has no closing quote",
                        f"close the value with {quote_mark}",
                    )
                value += "\n" + next_line
            value = value[: len(value) - len(end[0])]
        variables[_check_variable_name(name.strip())] = value
    return variables


def update_env_file(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Update the variables about the agent in its env file, and keep all others."""
    path = os.path.join(host.home.agent_dir(record.id), "env")
    host.write(path, replace_agent_part(host.read(path), build_agent_variables(ctx, host, record)))


def replace_agent_part(
    text: bytes, agent_variables: dict[str, str], host_variables: dict[str, str] | None = None
) -> bytes:
    """Return the env file with new variables about the agent and, with `host_variables`, a new host part."""
    result = text.rsplit(_AGENT_PART_START, 1)[0].rstrip(b"\n") + b"\n"
    if host_variables is not None and HOST_PART_END in result:
        result = format_exports(host_variables) + HOST_PART_END + result.partition(HOST_PART_END)[2]
    return result + format_exports(agent_variables)
