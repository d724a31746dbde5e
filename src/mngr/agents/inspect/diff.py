"""Shows an agent's work since its base, including uncommitted and new files."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.sandbox import bubblewrap
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord
from mngr.host import scripts

TIMEOUT_SECONDS = 300.0


def diff(ctx: Context, name: str, *, committed: bool = False, options: tuple[str, ...] = ()) -> bytes:
    """Return the output of git for the agent's work since its base. `options` are options of `git diff`."""
    host, record = find.get_agent(ctx, name)
    if record.base is None:
        raise MngrError(
            f"{record.name} has no base commit to compare with, because it was created with --transfer {record.transfer}",
            f"list its files instead: mngr exec {record.name} -- ls -l",
        )
    repository_use = "own" if record.transfer == "mirror" else "shared"
    argv = ["sh", "-c", scripts.read_program("diff.sh"), "diff.sh", repository_use, record.work_dir, record.base]
    argv += ["committed" if committed else "all", *options]
    result = bubblewrap.open_sandboxed_host(host, record).run(argv, timeout=TIMEOUT_SECONDS)
    if result.code == 9:
        raise make_missing_work_dir_error(record)
    if result.code:
        raise MngrError(
            f"git diff failed: {result.error_line}",
            f"see the state of its repository: mngr exec {record.name} -- git status",
        )
    return result.out


def make_missing_work_dir_error(record: AgentRecord) -> MngrError:
    """Return the error for a work dir that no longer exists."""
    return MngrError(
        f"the work dir of {record.name} no longer exists: {record.work_dir}",
        f"destroy the agent: mngr destroy {record.name}",
    )
