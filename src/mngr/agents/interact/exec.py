"""Runs a command in an agent's work dir with the agent's environment. mngr never retries the command."""

from __future__ import annotations

import os

from mngr.agents.inspect import find
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import Outcome, Struct
from mngr.host import scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

MAX_COMMAND_SECONDS = 86400.0  # A user's command may take long.


class ExecResult(Struct):
    """The result of a command on one agent."""

    started: bool
    exit_code: int | None
    stdout: str = ""
    stderr: str = ""


def exec_attached(ctx: Context, name: str, argv: list[str]) -> int:
    """Run the command on one agent with this process's own streams, and return its exit code."""
    host, agent_id = find.get_agent_location(ctx, name)
    enter_argv, error_file = _build_enter_argv(host, agent_id, argv)
    if host.is_local and os.path.lexists(os.path.join(host.home.agent_dir(agent_id), "sandbox")):
        from mngr.base.command_with_own_streams import run_with_own_streams

        code = run_with_own_streams(enter_argv)
    else:
        code = host.run_attached(enter_argv)
    _raise_if_not_started(ctx, host, name, code, error_file)
    return code


def exec_many(
    ctx: Context, names: list[str], argv: list[str], timeout: float | None = None, *, activate: bool = True
) -> list[Outcome]:
    """Run the command on every agent and return the outcomes with its output.

    With `activate`, the Python environment of the work dir is active. The agent can put programs into it.
    """
    from mngr.agents.inspect.for_each_agent import run_on_targets

    def exec_one(observed: ObservedAgent, record: AgentRecord) -> Outcome:
        enter_argv, error_file = _build_enter_argv(observed.host, record.id, argv, activate=activate)
        # A local command without a limit stays in this process group, so that Ctrl-C ends it, too.
        result = observed.host.run(
            enter_argv, timeout=timeout or (None if observed.host.is_local else MAX_COMMAND_SECONDS)
        )
        _raise_if_not_started(ctx, observed.host, record.name, result.code, error_file)
        texts = {
            "stdout": result.out.decode("utf-8", "replace"),
            "stderr": result.err.decode("utf-8", "replace"),
        }
        extra = ExecResult(started=True, exit_code=result.code, **texts).to_dict()
        error = None if result.code == 0 else f"exit code {result.code}"
        return Outcome(id=record.id, name=record.name, ok=result.code == 0, error=error, exit_code=4, extra=extra)

    not_started = ExecResult(started=False, exit_code=None).to_dict()
    return [
        outcome if outcome.extra else outcome.replace(extra=not_started)
        for outcome in run_on_targets(ctx, names, exec_one)
    ]


def _build_enter_argv(host: Host, agent_id: str, argv: list[str], *, activate: bool = True) -> tuple[list[str], str]:
    """Return the command that enters the agent's environment, and the file in which it explains a failed entry."""
    directory = host.home.agent_dir(agent_id)
    error_file = os.path.join(directory, f"exec-{os.getpid()}-{os.urandom(3).hex()}")
    terminal = f"TERM={os.environ.get('TERM', 'dumb')}"
    program = [
        "sh",
        "-c",
        scripts.read_program("run_in_work_dir.sh"),
        "run_in_work_dir.sh",
    ]  # Sending the script along saves a round trip.
    if host.is_local:
        from mngr.agents.launch.launch import install_local_programs
        from mngr.agents.sandbox import bubblewrap

        bubblewrap.disable_fd_inheritance()
        program = ["sh", os.path.join(install_local_programs(host), "run_in_work_dir.sh")]
    flags = [] if activate else ["-n"]
    return ["env", "-i", terminal, *program, *flags, "-f", error_file, directory, *argv], error_file


def _raise_if_not_started(ctx: Context, host: Host, name: str, code: int, error_file: str) -> None:
    """Raise MngrError when the exit code 125 means that the command was not started."""
    if code != 125:
        return
    try:
        reason = host.read(error_file).decode("utf-8", "replace").strip()
    except NotFound:
        find.get_agent(ctx, name)  # Raises when the agent, and so the directory for the file, is gone.
        return  # The command itself ended with 125.
    host.run(["rm", "-f", error_file])
    hint = f"see the state of the agent: mngr explain {name}"
    if "command not found" in reason:
        hint = f"see where the agent looks for programs: mngr exec {name} -- printenv PATH"
    raise MngrError(f"mngr did not run the command in {name}: {reason}", hint)
