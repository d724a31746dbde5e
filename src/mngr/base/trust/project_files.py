"""Writes files into a project. A project can come from a stranger, whose links could lead to any file of the user."""

from __future__ import annotations

import contextlib
import errno
import os

from mngr.base.errors import MngrError


def make_project_dir(root: str, relative: str) -> str:
    """Create a directory below a project's root, with its parents, and return its path. Follow no link below the root."""
    os.close(_open_project_dir(root, relative))
    return os.path.join(root, relative)


def write_new_project_file(root: str, relative: str, data: bytes) -> None:
    """Write a file below a project's root, and leave an existing file or link as it is. Follow no link below the root."""
    directory, name = os.path.split(relative)
    directory_fd = _open_project_dir(root, directory)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file_fd = os.open(name, flags, 0o644, dir_fd=directory_fd)
        with open(file_fd, "wb") as file:
            file.write(data)
    except FileExistsError:
        pass
    finally:
        os.close(directory_fd)


def _open_project_dir(root: str, relative: str) -> int:
    """Return a descriptor of a directory below the root. Create what is missing."""
    directory_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    opened = root
    for name in relative.split(os.sep):
        opened = os.path.join(opened, name)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory_fd)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            child_fd = os.open(name, flags, dir_fd=directory_fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise MngrError(
                    f"{opened} is not a directory of the project, and mngr follows no links there",
                    f"remove it: rm {opened}",
                ) from None
            raise
        finally:
            os.close(directory_fd)
        directory_fd = child_fd
    return directory_fd
