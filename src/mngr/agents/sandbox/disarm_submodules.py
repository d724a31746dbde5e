"""Removes from the repositories of submodules everything that git would run there.

A set-up may create submodules, so it writes their repositories. Afterwards git works in them outside the set-up's
sandbox, for example when somebody runs `git status`. No process of the set-up runs at the same time.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator

from mngr.base.errors import MngrError
from mngr.host import git
from mngr.host.protocol import Host

# Keys that git itself writes when it creates a submodule. None of them names a program.
_KEYS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|symlinks|ignorecase|logallrefupdates)|extensions\.objectformat"
    r"|remote\..*\.(url|fetch)|branch\..*\.(remote|merge)|submodule\..*\.(url|active)|submodule\.active",
    re.DOTALL,
)
# Files of a repository with further settings, programs, or the way to another repository.
_UNSAFE_FILES = ("config.worktree", "hooks", "commondir", "objects/info/alternates")
_MAX_CONFIG_BYTES = 1 << 18
_MAX_GITFILE_BYTES = 1 << 13


def reset_submodules(host: Host, work_dir: str, git_dir: str) -> None:
    """Write the configuration of all submodules again, without programs, and delete repositories that none uses.

    Raise MngrError if the repository of a submodule leads out of the work dir and of `git_dir`.
    """
    modules_dir = os.path.join(git_dir, "modules")
    used_dirs: list[str] = []
    for path in _list_submodules(host, work_dir, git_dir):
        directory = os.path.join(work_dir, path)
        dot_git = os.path.join(directory, ".git")
        if not os.path.lexists(dot_git):
            continue
        module_dir = _find_repository(dot_git, modules_dir)
        is_safe = _is_inside(path) and os.path.realpath(dot_git) == dot_git
        if module_dir is None or not is_safe or not _has_plain_files(module_dir):
            raise MngrError(
                f"the set-up command replaced the repository of the submodule {path!r}",
                "in project.setup, create submodules only with this command: git submodule update --init",
            )
        used_dirs.append(module_dir)
        _reset_repository(host, module_dir, directory)
        reset_submodules(host, directory, module_dir)
    _remove_others(modules_dir, used_dirs)


def reset_new_repository(host: Host, work_dir: str) -> None:
    """Do the same for a repository that the set-up created in a copy, which has none. Raise MngrError if it is elsewhere."""
    git_dir = os.path.join(work_dir, ".git")
    if not os.path.lexists(git_dir):
        return
    if os.path.islink(git_dir) or not os.path.isdir(git_dir) or not _has_plain_files(git_dir):
        raise MngrError(
            "the set-up command created a repository outside the work dir",
            "remove this step: mngr config set project.setup COMMAND",
        )
    _reset_repository(host, git_dir, work_dir)


def _list_submodules(host: Host, work_dir: str, git_dir: str) -> Iterator[str]:
    """Yield the paths of the submodules that the index names."""
    words = (f"--git-dir={git_dir}", f"--work-tree={work_dir}", "ls-files", "--stage", "-z")
    result = git.run(host, work_dir, *words, git_command=git.ISOLATED_GIT)
    for row in result.out.decode("utf-8", "surrogateescape").split("\0"):
        if row.startswith("160000 "):
            yield row.partition("\t")[2]


def _is_inside(path: str) -> bool:
    """True for the path of a submodule that git accepts. The set-up can write the index of a submodule."""
    return {"", ".", "..", ".git"}.isdisjoint(path.lower().split("/"))


def _has_plain_files(git_dir: str) -> bool:
    """True for a repository without links, and without pipes on which git would wait."""
    entries = (os.path.join(top, name) for top, folders, files in os.walk(git_dir) for name in (*folders, *files))
    return all(stat.S_ISREG(mode) or stat.S_ISDIR(mode) for mode in (os.lstat(entry).st_mode for entry in entries))


def _find_repository(dot_git: str, modules_dir: str) -> str | None:
    """Return the repository of a submodule: `.git` itself, or the directory in `modules_dir` that this file names."""
    status = os.lstat(dot_git)
    if stat.S_ISDIR(status.st_mode):
        return dot_git
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_GITFILE_BYTES:
        return None
    with open(dot_git, encoding="utf-8", errors="surrogateescape") as file:
        label, _, path = file.read().rstrip("\n").partition(": ")
    module_dir = os.path.normpath(os.path.join(os.path.dirname(dot_git), path))
    is_inside = os.path.realpath(module_dir).startswith(os.path.realpath(modules_dir) + os.sep)
    return os.path.realpath(module_dir) if label == "gitdir" and is_inside and os.path.isdir(module_dir) else None


def _reset_repository(host: Host, git_dir: str, directory: str) -> None:
    """Write the configuration of a repository again with harmless keys only, and delete its unsafe files."""
    config = os.path.join(git_dir, "config")
    settings = _read_harmless_settings(host, directory, config)
    for name in (*_UNSAFE_FILES, "config"):
        _remove(os.path.join(git_dir, name))
    if os.path.basename(git_dir) != ".git":
        settings.append(("core.worktree", os.path.relpath(directory, git_dir)))
    text = "".join(_format_setting(key, value) for key, value in settings)
    host.write(config, text.encode("utf-8", "surrogateescape"))


def _format_setting(key: str, value: str) -> str:
    """Return a setting as git writes it to a file."""
    section, _, rest = key.partition(".")
    subsection, _, name = rest.rpartition(".")
    heading = f'{section} "{_escape_git_value(subsection)}"' if subsection else section
    return f'[{heading}]\n\t{name} = "{_escape_git_value(value)}"\n'


def _escape_git_value(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _read_harmless_settings(host: Host, directory: str, config: str) -> list[tuple[str, str]]:
    """Return the keys and values of a repository's configuration that cannot run anything."""
    if os.path.islink(config) or not os.path.isfile(config) or os.path.getsize(config) > _MAX_CONFIG_BYTES:
        return []
    words = ("config", "--file", config, "--no-includes", "--list", "-z")
    rows = git.run(host, directory, *words, git_command=git.ISOLATED_GIT).text.split("\0")
    pairs = [row.partition("\n")[::2] for row in rows if row]
    return [(key, value) for key, value in pairs if _KEYS.fullmatch(key.lower()) and "\n" not in key]


def _remove_others(directory: str, used_dirs: list[str]) -> None:
    """Delete everything below a directory that is not in one of the used directories."""
    if os.path.islink(directory):
        os.unlink(directory)
    if not os.path.isdir(directory):
        return
    for entry in os.scandir(directory):
        path = os.path.realpath(entry.path)
        if entry.is_symlink() or not any(f"{used_dir}/".startswith(f"{path}/") for used_dir in used_dirs):
            _remove(entry.path)
        elif path not in used_dirs:
            _remove_others(entry.path, used_dirs)


def _remove(path: str) -> None:
    """Delete a file, a link or a directory, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
