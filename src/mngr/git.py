"""git, driven by code: one function a question."""

from __future__ import annotations

from mngr.errors import MngrError
from mngr.model import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host import Host
    from mngr.shell import Result


THROUGH = (
    "-c",
    "protocol.ext.allow=always",
)  # with an address of Host.git_url, which may be a command of ours


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
        verb = next(word for word in words if word[0] != "-" and "=" not in word)
        raise MngrError(f"git {verb} failed in {where}: {result.problem}", hint(result.problem))
    return result.text


def hint(problem: str) -> str:
    """The next step after git said this."""
    if "dubious ownership" in problem:
        return "the directory belongs to another user: see git's safe.directory"
    if "No space left" in problem:
        return "make room and try again"
    return "see what git says there; mngr doctor checks this machine"


# Whatever git would run or reach because a repository's settings say so.
_INERT = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.sshCommand=false", "core.alternateRefsCommand=",
    "commit.gpgSign=false", "merge.verifySignatures=false", "gpg.program=false", "gc.auto=0", "maintenance.auto=false", "submodule.recurse=false",
    "protocol.allow=never", *(f"protocol.{name}.allow=never" for name in ("ext", "file", "git", "ssh", "http", "https")),
)  # fmt: skip
_DRIVERS = {
    "clean": "",
    "smudge": "",
    "process": "",
    "required": "false",
    "driver": "git merge-file --marker-size=%L %A %O %B",
}


def guard(host: Host, where: str) -> tuple[str, ...]:
    """Words for git in a repository that an agent owns: nothing it is set to run will run, and nothing is fetched."""
    listed = run(host, where, "config", "--list", "-z", "--name-only", "--show-scope")
    words = listed.out.decode("utf-8", "surrogateescape").split("\0")
    flags = list(_INERT)
    for scope, name in zip(words[0::2], words[1::2], strict=False):
        value = _DRIVERS.get(name.rpartition(".")[2])
        if scope not in ("local", "worktree") or value is None or not name.startswith(("filter.", "merge.")):
            continue
        if "=" in name or "\n" in name:
            raise MngrError(
                f"the repository {where} has a setting with an odd name: {name!r}",
                "take it out with git config",
            )
        flags.append(f"{name}={value}")
    return tuple(word for flag in flags for word in ("-c", flag))


def find_repo(host: Host, where: str) -> Repo | None:
    """The repository that holds `where`, None when there is none."""
    ask = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
    result = run(host, where, *ask, "HEAD", "--symbolic-full-name", "HEAD")
    lines = result.text.split("\n")
    if result.code and len(lines) < 2:
        if b"dubious ownership" in result.err:
            raise MngrError(result.problem, hint("dubious ownership"))
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


def status(host: Host, where: str, guard: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """(XY, path) of everything staged, changed or untracked; nothing of `.mngr/` but the shared settings counts."""
    flags = ["--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"]
    if guard:  # a repository inside has settings of its own, which the guard has not seen
        flags.append("--ignore-submodules=dirty")
    result = run(host, where, *guard, "--no-optional-locks", "status", *flags)  # its owner may need the lock
    if result.code:
        raise MngrError(f"git status failed in {where}: {result.problem}", hint(result.problem))
    rows = [row for row in result.out.decode("utf-8", "surrogateescape").split("\0") if row]
    found = [(row[:2], row[3:]) for row in rows]
    return [
        (xy, path) for xy, path in found if not path.startswith(".mngr/") or path == ".mngr/settings.toml"
    ]


def count_commits(host: Host, where: str, spec: list[str]) -> int:
    """How many commits a range of revisions holds."""
    result = run(host, where, "rev-list", "--count", *spec, "--")
    return int(result.text) if result.code == 0 and result.text.isdigit() else 0


def unique_commits(host: Host, where: str, branch: str) -> int:
    """Commits of a branch that no other branch, remote branch or tag has; 1 when git cannot tell, so that it stays."""
    others = (f"--exclude={branch}", "--branches", "--tags", "--remotes")
    result = run(host, where, "rev-list", "--count", f"refs/heads/{branch}", "--not", *others, "--")
    if result.code and not has_branch(host, where, branch):
        return 0
    return int(result.text) if result.code == 0 and result.text.isdigit() else 1
