"""git, driven by code: one function a question."""

from __future__ import annotations

from mngr.base import names, shell
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.base.shell import ProcessResult
    from mngr.host.protocol import Host


GIT = ("git",)
ALLOW_EXT_PROTOCOL = (
    "-c",
    "protocol.ext.allow=always",
)  # with words of `reach`, which may name a command of ours


# What git says when the other end is gone, and what it says after that or another trouble: neither is a reason.
_CONNECTION_LOST_MESSAGES = (
    "Could not read from remote repository", "hung up unexpectedly", "early EOF", "unexpected EOF", "unexpected disconnect",
    "Broken pipe", "Connection reset", "the remote end",
)  # fmt: skip
_FOLLOW_UP_MESSAGES = (
    "index-pack output",
    "index-pack failed",
    "abnormal exit",
    "pack-objects died",
    "failed to push some refs",
)


class Repo(Struct):
    """A repository and where it stands."""

    root: str
    common_dir: str  # shared by all its worktrees
    head: str | None  # None before the first commit
    branch: str | None  # None when detached


def run(host: Host, where: str, *words: str, stdin: bytes = b"", by: Sequence[str] = GIT) -> ProcessResult:
    """git in a directory; a failure is a Result. `by` is what to run as git, see `guard`."""
    return host.run([*by, "-C", where, *words], stdin=stdin)


def run_checked(host: Host, where: str, *words: str, stdin: bytes = b"", by: Sequence[str] = GIT) -> str:
    """git in a directory; what it printed, or MngrError."""
    result = run(host, where, *words, stdin=stdin, by=by)
    if result.code:
        verb = next(word for word in words if word[0] != "-" and "=" not in word)
        raise MngrError(f"git {verb} failed in {where}: {result.error_line}", suggest_hint(result.error_line))
    return result.text


def get_object_format(host: Host, repo: Repo) -> str:
    """How its objects are named: sha1 or sha256."""
    return run_checked(host, repo.root, "rev-parse", "--show-object-format")


def describe_failure(result: ProcessResult) -> str:
    """Why a fetch or push failed, as git said here or at the other end."""
    reasons, rest = _split_messages(result)
    first = (reasons or rest or [result.error_line])[0]
    return first.removeprefix("remote: ").removeprefix("fatal: ").removeprefix("error: ")


def is_connection_lost(result: ProcessResult) -> bool:
    """Whether a fetch or push failed for no other reason than that the other end was gone."""
    reasons, rest = _split_messages(result)
    return not reasons and any(words in line for line in rest for words in _CONNECTION_LOST_MESSAGES)


def _split_messages(result: ProcessResult) -> tuple[list[str], list[str]]:
    """What git complained of: reasons, and what only follows from them."""
    lines = [line.strip() for line in result.err.decode("utf-8", "replace").splitlines()]
    bad = [line for line in lines if line.startswith(("fatal:", "error:", "remote: fatal:", "remote: error:"))]
    rest = [line for line in bad if any(words in line for words in (*_CONNECTION_LOST_MESSAGES, *_FOLLOW_UP_MESSAGES))]
    return [line for line in bad if line not in rest], rest


def suggest_hint(problem: str) -> str:
    """The next step after git said this."""
    if "dubious ownership" in problem:
        return "the directory belongs to another user: see git's safe.directory"
    if "No space left" in problem:
        return "make room and try again"
    return "see what git says there; mngr doctor checks this machine"


def build_guarded_git(where: str) -> tuple[str, ...]:
    """What to run as git in a repository that an agent owns: nothing it is set to run will run, and nothing is fetched."""
    return ("sh", "-c", scripts.read_program("guard.sh") + 'guard "$1"; shift; exec git "$@"\n', "git", where)


def build_remote_args(host: Host, path: str, service: str, by: Sequence[str] = GIT) -> list[str]:
    """The words by which fetch (`upload-pack`) or push (`receive-pack`) here gets to a repository there."""
    if host.is_local:
        return [f"--{service}={shell.join([*by, service])}", "--", path]
    return ["--", host.build_git_url(path, by)]


def find_repo(host: Host, where: str) -> Repo | None:
    """The repository that holds `where`, None when there is none."""
    ask = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
    result = run(host, where, *ask, "HEAD", "--symbolic-full-name", "HEAD")
    lines = result.text.split("\n")
    if result.code and len(lines) < 2:
        if b"dubious ownership" in result.err:
            raise MngrError(result.error_line, suggest_hint("dubious ownership"))
        return None
    if result.code:  # no commit yet
        return Repo(root=lines[0], common_dir=lines[1], head=None, branch=None)
    branch = lines[3].removeprefix("refs/heads/") if lines[3].startswith("refs/heads/") else None
    return Repo(root=lines[0], common_dir=lines[1], head=lines[2], branch=branch)


def is_bare(host: Host, where: str) -> bool:
    """Whether `where` is a repository without files."""
    return run(host, where, "rev-parse", "--is-bare-repository").text == "true"


def find_commit(host: Host, where: str, name: str) -> str | None:
    """The commit a name stands for."""
    result = run(host, where, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return result.text if result.code == 0 else None


def has_branch(host: Host, where: str, name: str) -> bool:
    """Whether there is a local branch of that name."""
    return run(host, where, "show-ref", "--verify", "--quiet", f"refs/heads/{name}").code == 0


def list_dirty_files(host: Host, where: str, by: Sequence[str] = GIT) -> list[tuple[str, str]]:
    """(XY, path) of everything staged, changed or untracked; nothing of `.mngr/` but the shared settings counts."""
    flags = ["--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"]
    if by != GIT:  # a repository inside has settings of its own, which the guard has not seen
        flags.append("--ignore-submodules=dirty")
    result = run(host, where, "--no-optional-locks", "status", *flags, by=by)  # its owner may need the lock
    if result.code:
        raise MngrError(f"git status failed in {where}: {result.error_line}", suggest_hint(result.error_line))
    rows = [row for row in result.out.decode("utf-8", "surrogateescape").split("\0") if row]
    found = [(row[:2], row[3:]) for row in rows]
    return [(xy, path) for xy, path in found if not path.startswith(".mngr/") or path == ".mngr/settings.toml"]


def count_commits(host: Host, where: str, spec: list[str]) -> int:
    """How many commits a range of revisions holds."""
    result = run(host, where, "rev-list", "--count", *spec, "--")
    return int(result.text) if result.code == 0 and names.is_number(result.text) else 0


def count_unique_commits(host: Host, where: str, branch: str) -> int:
    """Commits of a branch that no other branch, remote branch or tag has; 1 when git cannot tell, so that it stays."""
    others = (f"--exclude={branch}", "--branches", "--tags", "--remotes")
    result = run(host, where, "rev-list", "--count", f"refs/heads/{branch}", "--not", *others, "--")
    if result.code and not has_branch(host, where, branch):
        return 0
    return int(result.text) if result.code == 0 and names.is_number(result.text) else 1
