"""`diff`: an agent's work since its base, uncommitted and new files included."""

from __future__ import annotations

import os

from mngr import git, shell
from mngr.errors import MngrError
from mngr.ops import find, sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.ops.context import Context

# A copy of the index takes up new files, so that the agent's own index is left alone.
_PROGRAM = """
cd "$1" || exit 1
shift
index=$(mktemp) || exit 1
trap 'rm -f "$index"' EXIT
cp "$(git rev-parse --git-path index)" "$index" 2>/dev/null
GIT_INDEX_FILE=$index
export GIT_INDEX_FILE
GIT add --intent-to-add --all -- . 2>/dev/null
GIT diff --no-ext-diff --no-textconv "$@"
"""


def diff(ctx: Context, name: str, *, committed: bool = False, options: tuple[str, ...] = ()) -> bytes:
    """What git prints; `options` are those of `git diff`."""
    host, record = find.find(ctx, name)
    if record.base is None:
        raise MngrError(
            f"{record.name} has no base to compare with ({record.transfer})",
            "only work in git can be compared",
        )
    if not os.path.isdir(record.work_dir):
        raise MngrError(f"the work dir of {record.name} is gone", f"mngr destroy {record.name}")
    host = sandbox.inside(host, record)
    guard = (
        git.guard(host, record.work_dir) if record.transfer == "mirror" else ("-c", "core.fsmonitor=false")
    )
    if committed:
        fixed = ["diff", "--no-ext-diff", "--no-textconv"]
        argv = ["git", "-C", record.work_dir, *guard, *fixed, *options, record.base, "HEAD"]
    else:
        program = _PROGRAM.replace("GIT ", shell.join(["git", *guard]) + " ")
        argv = ["sh", "-c", program, "diff", record.work_dir, *options, record.base]
    result = host.run(argv)
    if result.code:
        raise MngrError(f"git diff failed: {result.problem}", f"look: mngr exec {record.name} -- git status")
    return result.out
