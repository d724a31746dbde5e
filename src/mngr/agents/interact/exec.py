"""`exec`: run a command in an agent's work dir with the agent's environment. Never retried."""

from __future__ import annotations

import os

from mngr.agents.inspect import find
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import Outcome, Record
from mngr.host import scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import Seen
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

LONGEST = 86400.0  # seconds: a command of the user's may take its time


class Executed(Record):
    """How a command on one agent ended."""

    started: bool
    exit_code: int | None
    stdout: str = ""
    stderr: str = ""


def exec_here(ctx: Context, name: str, argv: list[str]) -> int:
    """Run on one agent with this process's own streams; the command's exit code."""
    host, agent_id = find.locate(ctx, name)
    entered, note = _enter(host, agent_id, argv)
    code = host.run_here(entered)
    _raise_unstarted(ctx, host, name, code, note)
    return code


def exec_many(ctx: Context, names: list[str], argv: list[str], timeout: float | None = None) -> list[Outcome]:
    """Run on every agent and capture what it wrote."""
    from mngr.agents.inspect.targets import each

    def one(seen: Seen, record: AgentRecord) -> Outcome:
        entered, note = _enter(seen.host, record.id, argv)
        # Here it is of our process group without a limit, so that who interrupts us ends it, too.
        result = seen.host.run(entered, timeout=timeout or (None if seen.host.is_here else LONGEST))
        _raise_unstarted(ctx, seen.host, record.name, result.code, note)
        texts = {
            "stdout": result.out.decode("utf-8", "replace"),
            "stderr": result.err.decode("utf-8", "replace"),
        }
        extra = Executed(started=True, exit_code=result.code, **texts).to_dict()
        error = None if result.code == 0 else f"exit code {result.code}"
        return Outcome(
            id=record.id, name=record.name, ok=result.code == 0, error=error, exit_code=4, extra=extra
        )

    blank = Executed(started=False, exit_code=None).to_dict()
    return [o if o.extra else o.replace(extra=blank) for o in each(ctx, names, one)]


def _enter(host: Host, agent_id: str, argv: list[str]) -> tuple[list[str], str]:
    directory = host.home.agent(agent_id)
    note = os.path.join(directory, f"exec-{os.getpid()}-{os.urandom(3).hex()}")
    terminal = f"TERM={os.environ.get('TERM', 'dumb')}"
    program = [
        "sh",
        "-c",
        scripts.program("enter.sh"),
        "enter.sh",
    ]  # sent along: one round trip is all it takes
    if host.is_here:
        from mngr.agents.launch.launch import install_lib
        from mngr.agents.sandbox import bubblewrap

        bubblewrap.seal()
        program = ["sh", os.path.join(install_lib(host), "enter.sh")]
    return ["env", "-i", terminal, *program, "-f", note, directory, *argv], note


def _raise_unstarted(ctx: Context, host: Host, name: str, code: int, note: str) -> None:
    if code != 125:
        return
    try:
        reason = host.read(note).decode("utf-8", "replace").strip()
    except NotFound:
        find.find(ctx, name)  # an agent that is gone has no place for a note
        return  # the command's own 125
    host.run(["rm", "-f", note])
    raise MngrError(f"{name}: {reason}", "nothing was run")
