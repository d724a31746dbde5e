"""git, driven by code: one function a question."""

from __future__ import annotations

from mngr.errors import MngrError
from mngr.model import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host import Host
    from mngr.shell import Result


class Repo(Record):
    """A repository and where it stands."""

    root: str
    common_dir: str  # shared by all its worktrees
    head: str | None  # None before the first commit
    branch: str | None  # None when detached


def run(host: Host, where: str, *words: str, stdin: bytes = b"") -> Result:
    """git in a directory; a failure is a Result."""
    return host.run(["git", "-C", where, *words], stdin=stdin)


def must(host: Host, where: str, *words: str, stdin: bytes = b"") -> str:
    """git in a directory; what it printed, or MngrError."""
    result = run(host, where, *words, stdin=stdin)
    if result.code:
        raise MngrError(f"git {words[0]} failed in {where}: {result.problem}", _hint(result.problem))
    return result.text


def _hint(problem: str) -> str | None:
    if "dubious ownership" in problem:
        return "the directory belongs to another user: see git's safe.directory"
    if "No space left" in problem:
        return "make room and try again"
    return None


def find_repo(host: Host, where: str) -> Repo | None:
    """The repository that holds `where`, None when there is none."""
    ask = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
    result = run(host, where, *ask, "HEAD", "--symbolic-full-name", "HEAD")
    lines = result.text.split("\n")
    if result.code and len(lines) < 2:
        if b"dubious ownership" in result.err:
            raise MngrError(result.problem, _hint("dubious ownership"))
        return None
    if result.code:  # no commit yet
        return Repo(root=lines[0], common_dir=lines[1], head=None, branch=None)
    branch = lines[3].removeprefix("refs/heads/") if lines[3].startswith("refs/heads/") else None
    return Repo(root=lines[0], common_dir=lines[1], head=lines[2], branch=branch)


def resolve(host: Host, where: str, name: str) -> str | None:
    """The commit a name stands for."""
    result = run(host, where, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return result.text if result.code == 0 else None


def has_branch(host: Host, where: str, name: str) -> bool:
    """Whether there is a local branch of that name."""
    return run(host, where, "show-ref", "--verify", "--quiet", f"refs/heads/{name}").code == 0


def status(host: Host, where: str) -> list[tuple[str, str]]:
    """(XY, path) of everything staged, changed or untracked; nothing of `.mngr/` but the shared settings counts."""
    result = run(host, where, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    if result.code:
        raise MngrError(f"git status failed in {where}: {result.problem}", _hint(result.problem))
    rows = [row for row in result.out.decode("utf-8", "surrogateescape").split("\0") if row]
    found = [(row[:2], row[3:]) for row in rows]
    return [(xy, path) for xy, path in found if not path.startswith(".mngr/") or path == ".mngr/settings.toml"]


def count_commits(host: Host, where: str, spec: list[str]) -> int:
    """How many commits a range of revisions holds."""
    result = run(host, where, "rev-list", "--count", *spec, "--")
    return int(result.text) if result.code == 0 and result.text.isdigit() else 0


def unique_commits(host: Host, where: str, branch: str) -> int:
    """Commits of a branch that no other branch, remote branch or tag has."""
    ref = f"refs/heads/{branch}"
    return count_commits(host, where, [ref, "--not", f"--exclude={branch}", "--branches", "--tags", "--remotes"])
