"""Reads and searches files of a commit in git."""

from __future__ import annotations

from collections.abc import Iterable

from mngr.base.errors import MngrError
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.prepare.root_causes import is_test_code


def read_files(local: Host, repo: str, commit: str, paths: Iterable[str]) -> dict[str, str]:
    """Return the texts of files of a commit, without files that are missing or no text. Raise MngrError."""
    names = [path for path in paths if "\n" not in path]
    request = "".join(f"{commit}:{path}\n" for path in names).encode("utf-8", "surrogateescape")
    result = git.run(local, repo, "cat-file", "--batch", stdin=request, git_command=git.SAFE_GIT)
    if result.code:
        raise MngrError(f"git cat-file failed in {repo}: {result.error_line}")
    out, texts = result.out, {}
    for path in names:
        header, _, out = out.partition(b"\n")
        words = header.split()
        if len(words) == 3 and words[1] == b"blob":
            size = int(words[2])
            data, out = out[:size], out[size + 1 :]
            try:
                texts[path] = data.decode()
            except UnicodeDecodeError:
                continue
    return texts


def is_word_of_program(local: Host, repo: str, commit: str, word: str) -> bool:
    """True when a Python file of a commit that is no test contains the word."""
    words = ("grep", "-l", "-z", "-w", "-F", "-e", word, commit, "--", "*.py")
    result = git.run(local, repo, *words, git_command=git.SAFE_GIT)
    names = result.out.decode("utf-8", "replace").split("\0")
    return any(name and not is_test_code(name.partition(":")[2]) for name in names)
