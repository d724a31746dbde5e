"""Runs a project's set-up in its own sandbox. It has the network, and writes only the work dir and a package cache.

A set-up such as `npm ci` runs code of many authors. The sandbox shows this code the system's programs, the programs on
the PATH, the work dir, and the settings of package managers that hold no password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from mngr.agents.sandbox import bubblewrap, disarm_submodules, scoped_sockets, seccomp, visible_files
from mngr.base.model import AgentRecord, Struct
from mngr.host import git
from mngr.host.protocol import Host

# Settings of package managers, relative to the user's home.
_PACKAGE_SETTINGS = (
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    ".config/uv/uv.toml",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".config/pnpm/rc",
    ".cargo/config.toml",
    ".condarc",
)
# An address can hold a credential as its user, or after /t/ in a channel of conda.
_CREDENTIAL = re.compile(r"_auth|passw|token|secret|api.?key|//[^/\s]*@|/t/[a-z0-9-]{6,}", re.IGNORECASE)
_LOCAL_PATH = re.compile(r"(?:file://(?:localhost)?)?(/[\w.+/-]+)")
_URL_USER = re.compile(r"(?<=://)[^/\s]+@")
_MAX_SETTINGS_BYTES = 1 << 16
_UV_PYTHONS = ".local/share/uv/python"  # where uv installs Pythons, relative to the home
# The parts of a repository that git needs to read commits. Others can hold passwords, such as the settings of submodules.
_REPOSITORY_PARTS = ("HEAD", "objects", "refs", "reftable", "packed-refs", "shallow", "info")
# Keys of a repository's configuration that its set-up may see. Others can hold passwords or name programs.
_REPOSITORY_KEYS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|symlinks|ignorecase|autocrlf|eol|sharedrepository)"
    r"|extensions\..*|submodule\..*|remote\..*\.url"
)


class SetupPlaces(Struct):
    """The directories that a set-up uses besides the work dir."""

    packages: str  # its home, where package managers keep their caches
    pythons: str  # where uv installs Pythons; only set-ups of the same trusted branch may write there
    scratch: str  # its /tmp, which mngr deletes afterwards
    is_shared: bool  # all set-ups of a trusted branch use the same packages; other set-ups get an empty home


def build_argv(
    host: Host,
    record: AgentRecord,
    places: SetupPlaces,
    *,
    search_path: str,
    shown_paths: Sequence[str],
    network: bool,
) -> list[str]:
    """Return bubblewrap and its arguments for a set-up. The caller opens the seccomp filter as descriptor 9."""
    home = host.home
    args = [*bubblewrap.ISOLATION_FLAGS, "--new-session"]
    args += [*visible_files.build_system_args(home, record.source or ""), "--bind", places.scratch, "/tmp"]
    args += ["--perms", "1777", "--tmpfs", "/var/tmp", "--tmpfs", "/run", "--symlink", "../run", "/var/run"]
    if network:
        args += ["--share-net", *visible_files.build_resolver_args()]
    readable = [*visible_files.list_program_paths(home, search_path, "sh"), *shown_paths, *_list_package_settings()]
    for path in readable:
        args += ["--ro-bind-try", path, path]
    args += ["--bind", places.packages, places.packages, "--bind", record.work_dir, record.work_dir]
    args += _build_uv_args(places)
    if record.transfer == "worktree":
        args += _build_repository_args(host, record, places)
    elif record.transfer == "mirror":
        args += _build_mirror_args(host, record.work_dir)
    # uv would try hard links first, which cannot lead out of the sandbox's cache.
    args += ["--setenv", "HOME", places.packages, "--setenv", "UV_LINK_MODE", "copy"]
    args += ["--chdir", record.work_dir, "--remount-ro", "/", "--seccomp", "9", "--"]
    args += scoped_sockets.WORDS if network else ()
    return [bubblewrap.find_bwrap(), *args]


def _build_uv_args(places: SetupPlaces) -> list[str]:
    """Return the arguments that show the Pythons that uv may use: the user's own, or those of trusted set-ups.

    No set-up can replace the shown directory by a link, because no set-up can write to its parent.
    """
    own_dir = os.path.join(os.path.expanduser("~"), _UV_PYTHONS)
    has_own_dir = os.path.isdir(own_dir)
    path = own_dir if has_own_dir else places.pythons
    option = "--bind" if places.is_shared and not has_own_dir else "--ro-bind"
    return [option, path, path, "--setenv", "UV_PYTHON_INSTALL_DIR", path]


def reset_submodules(host: Host, record: AgentRecord) -> None:
    """Remove from the repositories of submodules what the set-up could have made git run there."""
    work_dir = os.path.realpath(record.work_dir)
    git_dir = os.path.join(work_dir, ".git")
    if record.transfer == "worktree":
        git_dir = _list_git_dirs(host, work_dir)[0]
    elif record.transfer == "copy":
        disarm_submodules.reset_new_repository(host, work_dir)
    elif record.transfer != "mirror" or os.path.islink(git_dir):
        return
    if os.path.isdir(git_dir):
        disarm_submodules.reset_submodules(host, work_dir, git_dir)


def write_filter(host: Host, places: SetupPlaces) -> str:
    """Write the filter for system calls, and return its path."""
    path = places.scratch + ".seccomp"
    host.write(path, seccomp.build_filter())
    return path


def _list_package_settings() -> list[str]:
    """Return the user's settings of package managers that hold no credential, and the local paths that they name."""
    home = os.path.realpath(os.path.expanduser("~"))
    shown: list[str] = []
    for name in _PACKAGE_SETTINGS:
        path = os.path.join(os.path.expanduser("~"), name)
        text = _read_settings(path)
        if text is None or _CREDENTIAL.search(text):
            continue
        shown.append(path)
        shown += [found for found in _iter_local_paths(text) if not os.path.realpath(found).startswith(home + "/")]
    return shown


def _read_settings(path: str) -> str | None:
    """Return the text of a small settings file, or None."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_MAX_SETTINGS_BYTES + 1)
    except OSError:
        return None
    return None if len(text) > _MAX_SETTINGS_BYTES else text


def _iter_local_paths(text: str) -> Iterator[str]:
    """Yield the absolute paths of existing files and directories that a text names, such as a directory of wheels."""
    for match in _LOCAL_PATH.finditer(text):
        path = match.group(1).rstrip("/")
        is_top = path.count("/") < 2  # Never show a top directory such as /home.
        if os.path.exists(path) and not is_top:
            yield path


def _build_repository_args(host: Host, record: AgentRecord, places: SetupPlaces) -> list[str]:
    """Return the arguments that show the necessary parts of a worktree's repository read-only.

    Only new submodules may be written there. The repository's configuration is a copy without passwords. The copy knows
    the addresses of the submodules, because git would write them to the configuration.
    """
    work_dir = record.work_dir
    git_dir, common_dir = _list_git_dirs(host, work_dir)
    modules_dir = os.path.join(git_dir, "modules")
    os.makedirs(modules_dir, exist_ok=True)
    config = places.scratch + ".gitconfig"
    _write_repository_config(host, work_dir, config)
    args: list[str] = []
    for path in (os.path.join(common_dir, name) for name in _REPOSITORY_PARTS):
        args += ["--ro-bind-try", path, path]
    for path in (git_dir, os.path.join(work_dir, ".git")):
        args += ["--ro-bind", path, path]
    own_config = os.path.join(git_dir, "config.worktree")
    for path in (os.path.join(common_dir, "config"), *([own_config] if os.path.exists(own_config) else ())):
        args += ["--ro-bind", config, path]
    return [*args, "--bind", modules_dir, modules_dir]


def _list_git_dirs(host: Host, work_dir: str) -> tuple[str, str]:
    """Return the git directory of a worktree, and that of its repository."""
    words = ("rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir")
    listed = git.run_checked(host, work_dir, *words, git_command=git.SAFE_GIT).splitlines()
    return listed[0], listed[-1]


def _build_mirror_args(host: Host, work_dir: str) -> list[str]:
    """Return the arguments that show the repository of a mirror read-only, except for new submodules.

    git would write the addresses of submodules to the configuration, so mngr writes them before.
    """
    git_dir = os.path.join(work_dir, ".git")
    modules_dir = os.path.join(git_dir, "modules")
    if os.path.islink(git_dir) or os.path.islink(modules_dir) or not os.path.isdir(git_dir):
        return []  # The agent has replaced the repository.
    os.makedirs(modules_dir, exist_ok=True)
    for name, url in _iter_submodules(host, work_dir):
        key = f"submodule.{name}.url"
        if git.run(host, work_dir, "config", "--local", key, git_command=git.SAFE_GIT).code:
            address = _resolve_url(url, work_dir)
            git.run(host, work_dir, "config", "--local", key, address, git_command=git.SAFE_GIT)
    return ["--ro-bind", git_dir, git_dir, "--bind", modules_dir, modules_dir]


def _write_repository_config(host: Host, work_dir: str, path: str) -> None:
    """Write a copy of the repository's configuration with harmless keys only, and with the submodules' addresses."""
    rows = git.run(host, work_dir, "config", "--local", "--list", "-z", git_command=git.SAFE_GIT).text.split("\0")
    known = dict(row.partition("\n")[::2] for row in rows if row)
    settings = {
        key: _URL_USER.sub("", value) for key, value in known.items() if _REPOSITORY_KEYS.fullmatch(key.lower())
    }
    settings["submodule.active"] = "."
    for name, url in _iter_submodules(host, work_dir):
        settings.setdefault(f"submodule.{name}.url", _resolve_url(url, settings.get("remote.origin.url", work_dir)))
    host.write(path, b"")
    for key, value in settings.items():
        git.run(host, work_dir, "config", "--file", path, key, value, git_command=git.SAFE_GIT)


def _iter_submodules(host: Host, work_dir: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the address of each submodule."""
    flags = ("config", "--blob", "HEAD:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.url$")
    for row in git.run(host, work_dir, *flags, git_command=git.SAFE_GIT).text.split("\0"):
        key, _, url = row.partition("\n")
        if url:
            yield key.removeprefix("submodule.").removesuffix(".url"), url


def _resolve_url(url: str, remote: str) -> str:
    """Return the address of a submodule, which may be relative to the repository's own address."""
    if not url.startswith(("./", "../")):
        return url
    base = remote.rstrip("/")
    while url.startswith(("./", "../")):
        step, _, url = url.partition("/")
        if step == "..":
            base = base.rpartition("/")[0]
    return f"{base}/{url}"
