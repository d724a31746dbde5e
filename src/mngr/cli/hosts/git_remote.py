"""`git-remote-mngr`: lets git fetch from any agent as `mngr::NAME`, through the connection to its host."""

from __future__ import annotations

import os
import sys

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.sandbox import bubblewrap
from mngr.base.errors import MngrError
from mngr.cli.main import report_crash, report_error
from mngr.host import git

_SERVICES = ("git-upload-pack", "git-receive-pack")


def main() -> int:
    """Serve git's remote helper protocol with one capability, `connect`."""
    try:
        return _serve_connection(sys.argv)
    except MngrError as error:
        report_error(error, [])
        return error.exit_code
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    except Exception as error:
        return report_crash(error, ["git-remote-mngr"])


def _serve_connection(argv: list[str]) -> int:
    """Answer git's commands until it asks to connect; then run the git service on the agent's host."""
    if len(argv) < 3:
        raise MngrError("git-remote-mngr is a helper that git runs", "for example: git fetch mngr::foo")
    name = argv[2].removeprefix("mngr:").lstrip(":/")
    while True:
        line = _read_line()
        if line in ("", "\n"):
            return 0
        word, _, service = line.strip().partition(" ")
        if word == "capabilities":
            os.write(1, b"connect\n\n")
        elif word == "connect" and service in _SERVICES:
            ctx = Context(cwd=os.environ.get("GIT_WORK_TREE") or os.getcwd())
            host, record = find.get_agent(ctx, name)
            if record.transfer == "copy":
                raise MngrError(
                    f"{record.name} has no git repository, because it was created with --transfer copy",
                    f"copy its files: mngr pull {record.name}:PATH",
                )
            host = bubblewrap.open_sandboxed_host(host, record)
            os.write(1, b"\n")
            return host.run_attached(
                [*git.build_guarded_git(record.work_dir), service.removeprefix("git-"), record.work_dir]
            )
        else:
            os.write(1, b"fallback\n")


def _read_line() -> str:
    """Read one line byte by byte, because the bytes after it belong to the service."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line.decode()
