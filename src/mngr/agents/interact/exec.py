"""`exec`: run a command in an agent's work dir with the agent's environment. Never retried."""

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

MAX_COMMAND_SECONDS = 86400.0  # seconds: a command of the user's may take its time


class ExecResult(Struct):
    """How a command on one agent ended."""

    started: bool
    exit_code: int | None
    stdout: str = ""
    stderr: str = ""


def exec_attached(ctx: Context, name: str, argv: list[str]) -> int:
    """Run on one agent with this process's own streams; the command's exit code."""
    host, agent_id = find.get_agent_location(ctx, name)
    entered, note = _build_enter_argv(host, agent_id, argv)
    code = host.run_attached(entered)
    _raise_if_not_started(ctx, host, name, code, note)
    return code


def exec_many(ctx: Context, names: list[str], argv: list[str], timeout: float | None = None) -> list[Outcome]:
    """Run on every agent and capture what it wrote."""
    from mngr.agents.inspect.targets import run_on_targets

    def one(seen: ObservedAgent, record: AgentRecord) -> Outcome:
        entered, note = _build_enter_argv(seen.host, record.id, argv)
        # Here it is of our process group without a limit, so that who interrupts us ends it, too.
        result = seen.host.run(entered, timeout=timeout or (None if seen.host.is_local else MAX_COMMAND_SECONDS))
        _raise_if_not_started(ctx, seen.host, record.name, result.code, note)
        texts = {
            "stdout": result.out.decode("utf-8", "replace"),
            "stderr": result.err.decode("utf-8", "replace"),
        }
        extra = ExecResult(started=True, exit_code=result.code, **texts).to_dict()
        error = None if result.code == 0 else f"exit code {result.code}"
        return Outcome(id=record.id, name=record.name, ok=result.code == 0, error=error, exit_code=4, extra=extra)

    blank = ExecResult(started=False, exit_code=None).to_dict()
    return [o if o.extra else o.replace(extra=blank) for o in run_on_targets(ctx, names, one)]


def _build_enter_argv(host: Host, agent_id: str, argv: list[str]) -> tuple[list[str], str]:
    directory = host.home.agent_dir(agent_id)
    note = os.path.join(directory, f"exec-{os.getpid()}-{os.urandom(3).hex()}")
    terminal = f"TERM={os.environ.get('TERM', 'dumb')}"
    program = [
        "sh",
        "-c",
        scripts.read_program("enter.sh"),
        "enter.sh",
    ]  # sent along: one round trip is all it takes
    if host.is_local:
        from mngr.agents.launch.launch import install_local_programs
        from mngr.agents.sandbox import bubblewrap

        bubblewrap.disable_fd_inheritance()
        program = ["sh", os.path.join(install_local_programs(host), "enter.sh")]
    return ["env", "-i", terminal, *program, "-f", note, directory, *argv], note


def _raise_if_not_started(ctx: Context, host: Host, name: str, code: int, note: str) -> None:
    if code != 125:
        return
    try:
        reason = host.read(note).decode("utf-8", "replace").strip()
    except NotFound:
        find.get_agent(ctx, name)  # an agent that is gone has no place for a note
        return  # the command's own 125
    host.run(["rm", "-f", note])
    raise MngrError(f"{name}: {reason}", "nothing was run")
