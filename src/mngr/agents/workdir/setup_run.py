"""Runs `[project] setup` once: in its own sandbox, or as the agent would run it."""

from __future__ import annotations

import hashlib
import os

from mngr.agents.sandbox import sandbox_for_setup, visible_files
from mngr.agents.sandbox.host_isolation import SandboxUnavailable, check_isolation
from mngr.agents.sandbox.sandbox_for_setup import SetupPlaces
from mngr.base.config import Settings
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord
from mngr.host.protocol import Host

_TIMEOUT_SECONDS = 3600.0
# Tests in a clean room cannot write to a Python environment, so its bytecode has to be there from the start.
_SETUP_ARGV = ("/bin/sh", "-c", 'UV_COMPILE_BYTECODE=${UV_COMPILE_BYTECODE-1} exec sh -c "$1"', "setup")


class SetupFailed(MngrError):
    """The command `[project] setup` failed. `output` is everything that it printed."""

    def __init__(self, message: str, hint: str, output: str) -> None:
        super().__init__(message, hint)
        self.output = output


def run_setup(
    host: Host,
    record: AgentRecord,
    settings: Settings,
    *,
    package_owner: str,
    is_trusted: bool,
) -> None:
    """Run the set-up command in the work dir. Raise MngrError with the log's last lines if the command fails.

    `is_trusted` says that the user's checkout contains the content of the work dir.
    """
    if _has_setup_sandbox(host, record, settings, is_trusted=is_trusted):
        _run_in_sandbox(host, record, settings, package_owner, is_trusted=is_trusted)
    else:
        _run_as_agent(host, record, settings.get("project.setup"))


def _has_setup_sandbox(host: Host, record: AgentRecord, settings: Settings, *, is_trusted: bool) -> bool:
    """True if the set-up gets a sandbox with the network. Raise MngrError if the user wants one and there is none.

    An agent with its own sandbox may have written untrusted content, so the set-up gets no more than that agent.
    """
    mode = settings.get("sandbox.setup") or "auto"
    if mode not in ("auto", "on", "off"):
        raise MngrError(
            f"sandbox.setup is {mode!r}, but it must be auto, on or off",
            "set it to auto: mngr config set --user sandbox.setup auto",
        )
    if mode == "off" or not host.is_local or (record.sandbox and not is_trusted):
        return False
    isolation = check_isolation(host)
    if isolation.problem and mode == "on":
        raise SandboxUnavailable(f"mngr cannot run set-up in a sandbox: {isolation.problem}", isolation.hint)
    return not isolation.problem


def _run_as_agent(host: Host, record: AgentRecord, command: str) -> None:
    """Run the set-up command as the agent would run it: with its environment, and in its sandbox if it has one."""
    directory = host.home.agent_dir(record.id)
    enter = os.path.join(host.home.lib, "current", "run_in_work_dir.sh")
    log = os.path.join(directory, "setup.log")
    argv = ["sh", enter, directory, *_SETUP_ARGV, command]
    result = host.run(
        ["sh", "-c", 'exec "$@" >"$0" 2>&1 </dev/null', log, "env", "-i", *argv], timeout=_TIMEOUT_SECONDS
    )
    if result.code:
        hint = "run it by hand in a fresh clone, or change it: mngr config set project.setup COMMAND"
        raise _make_setup_error(host, log, command, result.code, hint)


# The program writes to a pipe: a sandboxed program could reopen a file and read or replace it.
_SANDBOX_SCRIPT = """\
log=$1 filter=$3
. "$2" || exit
exec 9<"$filter"
shift 3
code=$({ { "$@" 2>&1 </dev/null 3>&-; echo $? >&3; } | command -p cat >"$log" 3>&- 9<&-; } 3>&1)
exit "$code"
"""


def _run_in_sandbox(
    host: Host,
    record: AgentRecord,
    settings: Settings,
    package_owner: str,
    *,
    is_trusted: bool,
) -> None:
    """Run the set-up command in its own sandbox, with the agent's environment."""
    directory = host.home.agent_dir(record.id)
    env_file, log = os.path.join(directory, "env"), os.path.join(directory, "setup.log")
    search_path = host.run(["sh", "-c", '. "$1"; printf %s "$PATH"', "path", env_file]).text
    command = settings.get("project.setup")
    places = _make_setup_places(host, record, package_owner, is_trusted=is_trusted)
    try:
        sandbox_argv = sandbox_for_setup.build_argv(
            host,
            record,
            places,
            search_path=search_path,
            shown_paths=[os.path.expanduser(path) for path in settings.get("sandbox.show") or []],
            network=is_trusted or record.network == "on",
        )
        argv = [log, env_file, sandbox_for_setup.write_filter(host, places), *sandbox_argv, *_SETUP_ARGV, command]
        result = host.run(["env", "-i", "sh", "-c", _SANDBOX_SCRIPT, "setup", *argv], timeout=_TIMEOUT_SECONDS)
    finally:
        try:
            sandbox_for_setup.reset_submodules(host, record)
        finally:
            _remove_setup_places(host, places)
    if result.code:
        hint = (
            "set-up may write only the work dir, and sees nothing of your home; show it a directory: "
            "mngr config set --user sandbox.show '[\"DIR\"]'; or run it without a sandbox: "
            "mngr config set --user sandbox.setup off"
        )
        raise _make_setup_error(host, log, command, result.code, hint)


def _make_setup_places(host: Host, record: AgentRecord, package_owner: str, *, is_trusted: bool) -> SetupPlaces:
    """Create the directories of a set-up. Untrusted content gets an empty package cache, deleted afterwards."""
    cache = os.path.join(host.home.cache, "packages")
    shared_dir = os.path.join(cache, hashlib.sha256(package_owner.encode("utf-8", "surrogateescape")).hexdigest()[:24])
    places = SetupPlaces(
        packages=os.path.join(shared_dir, "home") if is_trusted else os.path.join(cache, f"{record.id}.home"),
        pythons=os.path.join(shared_dir, visible_files.PYTHONS_NAME),
        scratch=os.path.join(cache, f"{record.id}.tmp"),
        is_shared=is_trusted,
    )
    for path in (places.packages, places.pythons, places.scratch):
        os.makedirs(path, mode=0o700, exist_ok=True)
    os.utime(shared_dir)  # gc deletes package caches by the time of their last use.
    return places


def _remove_setup_places(host: Host, places: SetupPlaces) -> None:
    """Delete everything that only one set-up needed. Some package managers make their files read-only."""
    paths = [places.scratch, f"{places.scratch}.seccomp", f"{places.scratch}.gitconfig"]
    if not places.is_shared:
        paths.append(places.packages)
    line = 'chmod -Rf u+rwX -- "$@" 2>/dev/null; rm -rf -- "$@"'
    host.run(["sh", "-c", line, "remove", *(path for path in paths if os.path.lexists(path))])


def _make_setup_error(host: Host, log: str, command: str, code: int, hint: str) -> MngrError:
    """Return the error of a failed set-up, with the last lines of its log."""
    output = host.read(log).decode("utf-8", "replace").strip()
    message = f"[project] setup failed with exit code {code}: {command}\n  " + "\n  ".join(output.splitlines()[-5:])
    return SetupFailed(message, hint, output)
