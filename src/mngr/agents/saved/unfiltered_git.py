"""Runs git on the exact bytes of an agent's files.

It uses a temporary git dir instead of the agent's own, so that no settings, filters or hooks of the user or the agent
apply. For a sandboxed agent, everything here runs inside its sandbox: mngr never opens the agent's files from outside.
"""

from __future__ import annotations

import os

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.shell import ProcessResult
from mngr.host import git
from mngr.host.protocol import Host

_CONFIG = """\
[core]
	repositoryformatversion = {version}
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	autocrlf = false
	eol = lf
	fsmonitor = false
	untrackedCache = false
	splitIndex = false
	sparseCheckout = false
"""
_ATTRIBUTES = "* -text -crlf -eol -ident -filter -working-tree-encoding\n"


# Prints: the exit code and the rows of `git rev-parse`, the text of HEAD, the names in the git dir, the names of the
# common files that exist, and then, as lines, the ids that reflogs, an unfinished merge and similar files mention.
_DESCRIBE_REPO = """\
cd -- "$1" 2>/dev/null || exit 4
rows=$(git rev-parse --path-format=absolute --git-dir --git-common-dir --show-object-format --show-toplevel HEAD 2>/dev/null)
printf '%s\\0%s\\0' $? "$rows"
end='
'
dir=${rows%%"$end"*} rest=${rows#*"$end"}
common=${rest%%"$end"*} rest=${rest#*"$end"}
cd -- "$dir" 2>/dev/null || exit 4
[ ! -f HEAD ] || head -c 4096 HEAD
printf '\\0'
for name in * .[!.]* ..?*; do
    if [ -e "$name" ] || [ -L "$name" ]; then printf '%s\\0' "$name"; fi
done
printf '\\0'
for name in info/exclude info/attributes shallow; do
    [ ! -e "$common/$name" ] || printf '%s\\0' "$name"
done
printf '\\0'
size=40
[ "${rest%%"$end"*}" = sha1 ] || size=64
find . \\( -path ./objects -o -path ./hooks -o -path ./info -o -path ./modules -o -path ./worktrees -o -path ./lfs \\) -prune -o \\
    -type f ! -name index \\( -path './logs/*' -o -size -4097c \\) -exec awk -v size=$size '{
        count = split(substr($0, 1, 2 * size + 1), words, " ")
        for (i = 1; i <= count && i <= 2; i++)
            if (length(words[i]) == size && words[i] !~ /[^0-9a-f]/ && words[i] ~ /[^0]/) print words[i]
    }' {} +
"""
# Makes a raw git dir in the sandbox's own /tmp, which only this program sees and which disappears with it.
_RUN_IN_RAW_GIT_DIR = """\
raw=$(mktemp -d) && mkdir "$raw/refs" "$raw/info" || exit 1
printf %s "$1" >"$raw/config"
printf %s "$2" >"$raw/HEAD"
printf %s "$3" >"$raw/info/attributes"
shift 3
while [ "$1" != -- ]; do
    ln -s "$2" "$raw/$1"
    shift 2
done
shift
GIT_DIR=$raw
export GIT_DIR
exec "$@"
"""


class WorkTreeRepo(Struct):
    """The repository of a work tree: its directories, its object format and its HEAD."""

    git_dir: str | None  # None when the work tree is gone and only its repository is left
    common_dir: str  # shared by all its worktrees
    object_format: str  # sha1 or sha256
    head: str | None  # None before the first commit
    branch: str | None  # None when detached
    git_dir_names: tuple[str, ...] = ()  # what is directly in the git dir
    common_files: tuple[str, ...] = ()  # which of info/exclude, info/attributes and shallow exist
    mentioned: tuple[str, ...] = ()  # ids of objects that reflogs, an unfinished merge or rebase and the like mention


class RawGit(Struct):
    """A git command that uses a raw git dir, and the host on which it runs."""

    host: Host
    work_dir: str
    command: tuple[str, ...]
    git_dir: str | None = None  # the raw git dir, if it is a local directory

    def build_argv(self, *words: str) -> list[str]:
        """Return the command with these words."""
        options = ("-C", self.work_dir, f"--work-tree={self.work_dir}", "--no-optional-locks", "--no-replace-objects")
        return [*self.command, *options, *words]

    def run(self, *words: str, stdin: bytes = b"") -> ProcessResult:
        """Run git. A failure is a result, not an exception."""
        return self.host.run(self.build_argv(*words), stdin=stdin)

    def run_checked(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run git and return its output. Raise MngrError if it fails."""
        result = self.run(*words, stdin=stdin)
        if result.code:
            raise MngrError(
                f"git {words[0]} failed on {self.work_dir}: {result.error_line}",
                f"nothing was changed; see the state of the repository: git -C {self.work_dir} status",
            )
        return result.out


def find_work_tree_repo(host: Host, work_dir: str) -> WorkTreeRepo | None:
    """Return the repository of a work tree, or None if the directory is not the top of a work tree."""
    result = host.run(["env", *git.SAFE_VARIABLES, "sh", "-c", _DESCRIBE_REPO, "repo", work_dir])
    code, _, rest = result.out.decode("utf-8", "surrogateescape").partition("\0")
    rows, _, rest = rest.partition("\0")
    head_text, _, rest = rest.partition("\0")
    lines = rows.split("\n")
    if len(lines) < 4 or os.path.realpath(lines[3]) != os.path.realpath(work_dir):
        return None
    names, rest = _split_section(rest)
    common_files, mentioned = _split_section(rest)
    head_text = head_text.strip()
    return WorkTreeRepo(
        git_dir=lines[0],
        common_dir=lines[1],
        object_format=lines[2],
        head=lines[4] if code == "0" else None,
        branch=head_text.removeprefix("ref: refs/heads/") if head_text.startswith("ref: refs/heads/") else None,
        git_dir_names=tuple(sorted(names)),
        common_files=tuple(common_files),
        mentioned=tuple(dict.fromkeys(mentioned.split())),
    )


def _split_section(text: str) -> tuple[list[str], str]:
    """Return the names before an empty name, each ended by a NUL, and the text after it."""
    if text.startswith("\0"):
        return [], text[1:]
    section, _, rest = text.partition("\0\0")
    return section.split("\0"), rest


def open_raw_git(host: Host, work_dir: str, repo: WorkTreeRepo, raw_git_dir: str, exclude: str | None = None) -> RawGit:
    """Return a git whose git dir has only settings of mngr, which leave every byte unchanged.

    The git dir links to the repository's objects and index, and has the same HEAD. It is the new local directory
    `raw_git_dir`, or, in a sandbox, a directory inside that exists for each command only.
    """
    config = _CONFIG.format(version=0 if repo.object_format == "sha1" else 1)
    if exclude is not None:
        config += '\texcludesFile = "' + exclude.replace("\\", "\\\\").replace('"', '\\"') + '"\n'
    if repo.object_format != "sha1":
        config += f"[extensions]\n\tobjectFormat = {repo.object_format}\n"
    head = (repo.head or f"ref: refs/heads/{repo.branch or 'unborn'}") + "\n"
    links = [(name, os.path.join(repo.common_dir, name)) for name in ("objects", *repo.common_files)]
    links = [(name, path) for name, path in links if name != "info/attributes"]
    if repo.git_dir is not None:
        shared = (name for name in repo.git_dir_names if name.startswith("sharedindex."))
        links += [(name, os.path.join(repo.git_dir, name)) for name in ("index", *shared)]
    if not host.is_local:
        words = [word for link in links for word in link]
        program = ("sh", "-c", _RUN_IN_RAW_GIT_DIR, "raw", config, head, _ATTRIBUTES, *words, "--")
        return RawGit(host=host, work_dir=work_dir, command=(*program, *git.ISOLATED_GIT))
    os.makedirs(os.path.join(raw_git_dir, "refs"))
    os.mkdir(os.path.join(raw_git_dir, "info"))
    for name, text in (("HEAD", head), ("config", config), ("info/attributes", _ATTRIBUTES)):
        with open(os.path.join(raw_git_dir, name), "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    for name, path in links:
        os.symlink(path, os.path.join(raw_git_dir, name))
    command = (*git.ISOLATED_GIT, f"--git-dir={raw_git_dir}")
    return RawGit(host=host, work_dir=work_dir, command=command, git_dir=raw_git_dir)


def remove_raw_git_dir(raw_git_dir: str) -> None:
    """Delete a raw git dir, without following its links."""
    for top, folders, files in os.walk(raw_git_dir, topdown=False):
        for name in (*files, *folders):
            path = os.path.join(top, name)
            if os.path.islink(path) or not os.path.isdir(path):
                os.unlink(path)
            else:
                os.rmdir(path)
    if os.path.isdir(raw_git_dir):
        os.rmdir(raw_git_dir)


def list_index_rows(raw_git: RawGit) -> list[bytes]:
    """Return the rows of the index, for `parse_index_rows`."""
    return raw_git.run_checked("ls-files", "--stage", "-v", "-z").split(b"\0")[:-1]


def parse_index_rows(rows: list[bytes]) -> list[tuple[str, str, str]]:
    """Return (tag, mode, path) for each row of the index.

    The tag is H, or another letter for a flag or a conflict (see `git help ls-files`).
    """
    parts = (row.decode("utf-8", "surrogateescape").partition("\t") for row in rows)
    return [(prefix[0], prefix[2:8], path) for prefix, _, path in parts]
