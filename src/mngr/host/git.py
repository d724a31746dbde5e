"""Runs git on a host. Each function answers one question.

Every caller chooses the git command, because only the caller knows who can write the repository:

- `GIT` for the user's own repository, where git may run the user's hooks, filters and credential helpers
- `SAFE_GIT` or `ISOLATED_GIT` for repositories that mngr made, and to read objects, refs and settings
- `build_guarded_git` for the work tree of an agent
"""

from __future__ import annotations

import os

from mngr.base import names_and_addresses, shell
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.trust import agent_directories
from mngr.host import scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.base.shell import ProcessResult
    from mngr.host.protocol import Host


def build_config_options(*settings: str) -> tuple[str, ...]:
    """Return the options with which git uses these settings, each written KEY=VALUE."""
    return tuple(word for setting in settings for word in ("-c", setting))


# For the user's own repositories. Files that an agent wrote can look like a repository without a `.git`, whose settings
# name programs: git 2.38 and newer do not use such a repository. `run` and `find_repo` do the same for older versions.
GIT = ("git", "-c", "safe.bareRepository=explicit")
# The git for all other repositories. It runs no program that a repository, its owner's home or the environment names,
# and it reaches no other repository. `guard_git.sh` does the same in shell programs.
SAFE_VARIABLES = (
    "GIT_NO_LAZY_FETCH=1",  # A missing object is an error. Git would otherwise ask a remote that the agent chose.
    "GIT_ALLOW_PROTOCOL=none",  # unlike protocol.allow, this has precedence over the settings of the repository
    "GIT_PAGER=cat",
    "GIT_EDITOR=false",
    "GIT_ASKPASS=false",
    "GIT_OPTIONAL_LOCKS=0",
)
# What git does by default. A fetch needs these refs, or it receives all objects again.
_LIST_ALTERNATE_REFS = 'f() { git --git-dir="$1" for-each-ref --format="%(objectname)"; }; f'
_SAFE_OPTIONS = build_config_options(
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    f"core.alternateRefsCommand={_LIST_ALTERNATE_REFS}",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "credential.helper=",
    "log.showSignature=false",
)
# Reads and writes objects, refs and settings of a repository that may be hostile. It does not disable filters and merge
# drivers: commands that convert files of a work tree use `build_guarded_git`.
SAFE_GIT = ("env", *SAFE_VARIABLES, "git", *_SAFE_OPTIONS)
# For a git dir that mngr made itself: also ignores the settings of the user, the system and the agent's home.
ISOLATED_GIT = (
    "env",
    *SAFE_VARIABLES,
    "GIT_CONFIG_GLOBAL=/dev/null",
    "GIT_CONFIG_NOSYSTEM=1",
    "GIT_ATTR_NOSYSTEM=1",
    "GIT_NO_REPLACE_OBJECTS=1",
    "git",
    *_SAFE_OPTIONS,
)


# Messages of git when the connection is lost, and messages that only follow another failure. Neither gives the reason.
_CONNECTION_LOST_MESSAGES = (
    "Could not read from remote repository",
    "hung up unexpectedly",
    "early EOF",
    "unexpected EOF",
    "unexpected disconnect",
    "Broken pipe",
    "Connection reset",
    "the remote end",
)
_FOLLOW_UP_MESSAGES = (
    "index-pack output",
    "index-pack failed",
    "abnormal exit",
    "pack-objects died",
    "failed to push some refs",
)


class Repo(Struct):
    """A repository with its current commit and branch."""

    root: str
    common_dir: str  # shared by all worktrees
    head: str | None  # None before the first commit
    branch: str | None  # None when detached


def run(host: Host, directory: str, *words: str, stdin: bytes = b"", git_command: Sequence[str]) -> ProcessResult:
    """Run a git command in a directory and return its result. Raise MngrError for `GIT` in a sandboxed agent's directory."""
    if host.is_local and git_command[0] == "git":
        agent_directories.refuse_agents_directory(directory)
        if _is_in_repository_without_git_dir(directory) and not any(word.startswith("--git-dir") for word in words):
            return shell.ProcessResult(code=128, out=b"", err=_NO_GIT_DIR)
    result = host.run([*git_command, "-C", directory, *words], stdin=stdin)
    if result.code == 127 and host.is_local:  # `env` and `sh` report a missing git only by their exit code.
        raise shell.ProgramMissing("git")
    return result


_NO_GIT_DIR = b"fatal: this directory is part of a bare repository, or only looks like one"


def _is_in_repository_without_git_dir(directory: str) -> bool:
    """True if git could take a directory, or one above it, for a repository although it has no `.git`."""
    path = os.path.realpath(directory)
    while not os.path.lexists(os.path.join(path, ".git")):
        names = [name for name in ("HEAD", "commondir", "objects", "refs") if os.path.lexists(os.path.join(path, name))]
        if names[:2] == ["HEAD", "commondir"] or names == ["HEAD", "objects", "refs"]:
            return os.path.basename(path) != ".git"
        if path == "/":
            return False
        path = os.path.dirname(path)
    return False


def run_checked(host: Host, directory: str, *words: str, stdin: bytes = b"", git_command: Sequence[str]) -> str:
    """Run git in a directory and return its output. Raise MngrError if it fails."""
    result = run(host, directory, *words, stdin=stdin, git_command=git_command)
    if result.code:
        subcommand = next(word for word in words if word[0] != "-" and "=" not in word)
        raise MngrError(f"git {subcommand} failed in {directory}: {result.error_line}", suggest_hint(result.error_line))
    return result.text


def get_object_format(host: Host, repo: Repo) -> str:
    """Return the hash algorithm of the repository's objects: sha1 or sha256."""
    return run_checked(host, repo.root, "rev-parse", "--show-object-format", git_command=SAFE_GIT)


def describe_failure(result: ProcessResult) -> str:
    """Return the reason why a fetch or push failed, as git reported it on either side."""
    reasons, follow_ups = _split_messages(result)
    message = (reasons or follow_ups or [result.error_line])[0]
    return message.removeprefix("remote: ").removeprefix("fatal: ").removeprefix("error: ")


def is_connection_lost(result: ProcessResult) -> bool:
    """True when a fetch or push failed only because the connection was lost."""
    reasons, follow_ups = _split_messages(result)
    return not reasons and any(words in line for line in follow_ups for words in _CONNECTION_LOST_MESSAGES)


def _split_messages(result: ProcessResult) -> tuple[list[str], list[str]]:
    """Return git's error messages in two lists: reasons, and messages that only follow from a reason."""
    lines = [line.strip() for line in result.err.decode("utf-8", "replace").splitlines()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:", "remote: fatal:", "remote: error:"))]
    follow_ups = [
        line for line in errors if any(words in line for words in (*_CONNECTION_LOST_MESSAGES, *_FOLLOW_UP_MESSAGES))
    ]
    return [line for line in errors if line not in follow_ups], follow_ups


def suggest_hint(problem: str, host: Host | None = None) -> str:
    """Return the hint for a git error message. Without a host, git ran on this machine."""
    is_remote = host is not None and not host.is_local
    place = f" on {host.name}" if host is not None and is_remote else ""
    if "dubious ownership" in problem:
        directory = shell.quote(problem.partition("'")[2].rpartition("'")[0] or "DIR")
        command = f"git config --global --add safe.directory {directory}"
        return f"another user owns the directory; if you trust it, run{place}: {command}"
    if "No space left" in problem:
        return f"free some disk space{place}, then run the command again: df -h"
    if host is not None and is_remote:
        return f"check the host: mngr doctor @{host.name}"
    return "check git on this machine: mngr doctor"


def build_guarded_git(directory: str) -> tuple[str, ...]:
    """Return the argv that replaces `git` in a repository that an agent owns.

    This git runs no hook, filter or other program that the repository configures, and fetches nothing.
    """
    program = scripts.read_program("guard_git.sh") + 'guard "$1"; GIT_ALLOW_PROTOCOL=$2; shift 2; exec git "$@"\n'
    return ("sh", "-c", program, "git", directory, "none")


def add_variables(git_command: Sequence[str], *assignments: str) -> tuple[str, ...]:
    """Return `SAFE_GIT` or `ISOLATED_GIT` with more variables, each as `NAME=VALUE`."""
    assert git_command[0] == "env"
    return ("env", *assignments, *git_command[1:])


def allow_protocol(git_command: Sequence[str], protocol: str) -> tuple[str, ...]:
    """Return the same git command, for one transfer to or from the address of `build_remote_args`.

    Any git but that for the user's own repositories can then use this protocol and no other.
    """
    command = tuple(git_command)
    if command == GIT:
        return (*command, "-c", f"protocol.{protocol}.allow=always")
    if command[0] == "sh":
        return (*command[:-1], protocol)
    return tuple(f"GIT_ALLOW_PROTOCOL={protocol}" if word == "GIT_ALLOW_PROTOCOL=none" else word for word in command)


def build_remote_args(host: Host, path: str, service: str, git_command: Sequence[str]) -> list[str]:
    """Return the arguments with which a local fetch or push reaches a repository on the host.

    `service` is `upload-pack` for a fetch and `receive-pack` for a push.
    """
    if host.is_local:
        return [f"--{service}={shell.join([*git_command, service])}", "--", path]
    return ["--", host.build_git_url(path, git_command)]


def find_repo(host: Host, directory: str, git_command: Sequence[str]) -> Repo | None:
    """Return the repository that contains a directory, or None. Raise MngrError if git rejects its owner."""
    rev_parse = (
        "-c",
        "safe.bareRepository=explicit",
        "rev-parse",
        "--path-format=absolute",
        "--show-toplevel",
        "--git-common-dir",
    )
    if host.is_local and _is_in_repository_without_git_dir(directory):
        return None
    words = (*rev_parse, "HEAD", "--symbolic-full-name", "HEAD")
    result = run(host, directory, *words, git_command=git_command)
    lines = result.text.split("\n")
    if result.code and len(lines) < 2:
        if b"dubious ownership" in result.err:
            raise MngrError(result.error_line, suggest_hint("dubious ownership"))
        return None
    if result.code:  # The repository has no commit yet.
        return Repo(root=lines[0], common_dir=lines[1], head=None, branch=None)
    branch = lines[3].removeprefix("refs/heads/") if lines[3].startswith("refs/heads/") else None
    return Repo(root=lines[0], common_dir=lines[1], head=lines[2], branch=branch)


def is_bare(host: Host, directory: str, git_command: Sequence[str]) -> bool:
    """True when the directory is a bare repository."""
    return run(host, directory, "rev-parse", "--is-bare-repository", git_command=git_command).text == "true"


def find_commit(host: Host, directory: str, name: str, git_command: Sequence[str]) -> str | None:
    """Return the commit that a revision name refers to, or None."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    result = run(host, directory, *words, git_command=git_command)
    return result.text if result.code == 0 else None


def has_branch(host: Host, directory: str, name: str, git_command: Sequence[str]) -> bool:
    """True when the repository has a local branch of this name."""
    words = ("show-ref", "--verify", "--quiet", f"refs/heads/{name}")
    return run(host, directory, *words, git_command=git_command).code == 0


def list_dirty_files(host: Host, directory: str, git_command: Sequence[str]) -> list[tuple[str, str]]:
    """Return (status, path) of every staged, changed or untracked file.

    Files below `.mngr/` are omitted, except for the shared settings.
    """
    flags = ["--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"]
    if tuple(git_command) != GIT:  # The guard has not checked the settings of nested repositories.
        flags.append("--ignore-submodules=dirty")
    result = run(
        host, directory, "--no-optional-locks", "status", *flags, git_command=git_command
    )  # the agent may need the lock
    if result.code:
        raise MngrError(f"git status failed in {directory}: {result.error_line}", suggest_hint(result.error_line))
    rows = [row for row in result.out.decode("utf-8", "surrogateescape").split("\0") if row]
    entries = [(row[:2], row[3:]) for row in rows]
    return [
        (status, path) for status, path in entries if not path.startswith(".mngr/") or path == ".mngr/settings.toml"
    ]


def count_commits(host: Host, directory: str, spec: list[str], git_command: Sequence[str]) -> int:
    """Return the number of commits in a revision range, or 0 if git fails."""
    result = run(host, directory, "rev-list", "--count", *spec, "--", git_command=git_command)
    return int(result.text) if result.code == 0 and names_and_addresses.is_number(result.text) else 0


def count_unique_commits(host: Host, directory: str, branch: str, git_command: Sequence[str]) -> int:
    """Return the number of commits that are on this branch and on no other branch, remote branch or tag.

    Return 1 if git cannot tell, so that the caller keeps the branch.
    """
    others = (f"--exclude={branch}", "--branches", "--tags", "--remotes")
    words = ("rev-list", "--count", f"refs/heads/{branch}", "--not", *others, "--")
    result = run(host, directory, *words, git_command=git_command)
    if result.code and not has_branch(host, directory, branch, git_command):
        return 0
    return int(result.text) if result.code == 0 and names_and_addresses.is_number(result.text) else 1
