"""Sends an agent that was built locally to its host in one stream, either completely or not at all."""

from __future__ import annotations

import os
import stat

from mngr.agents.saved import host_stream, packs_in_user_repo
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord
from mngr.host import scripts
from mngr.host.protocol import Host

_WORK_DIR_NAME, _COMPLETE_MARKER = "landing", "complete"
UPLOAD_NAMES = (_WORK_DIR_NAME, _COMPLETE_MARKER)  # in an agent's directory during the upload


def get_upload_work_dir(build_host: Host, record: AgentRecord) -> str:
    """Return the directory in which mngr builds the agent's work dir."""
    return os.path.join(build_host.home.agent_dir(record.id), _WORK_DIR_NAME)


class SourceObjectsMissing(MngrError):
    """The copy of the source on the host lacks objects that the agent's repository needs."""


def upload_agent(build_host: Host, host: Host, record: AgentRecord, source_copy: str = "") -> None:
    """Send the agent's files and work dir to the directory that is reserved for it on the host.

    `source_copy` is a repository on the host from which the agent's repository gets the objects that it borrows here.
    Raise SourceObjectsMissing if that repository lacks any of them, MngrError or Unreachable if the upload fails.
    """
    directory = build_host.home.agent_dir(record.id)
    work_dir = get_upload_work_dir(build_host, record)
    mode = "0"
    if record.transfer != "none":
        permissions = stat.S_IMODE(os.stat(work_dir).st_mode)
        os.chmod(work_dir, permissions | 0o700)  # Without these permissions the host could not move it.
        mode = f"{permissions:o}"
    build_host.write(os.path.join(build_host.home.root, _COMPLETE_MARKER), b"")
    # A minimal tar on the host may support long names only in this format.
    argv = [
        "tar",
        "--format=gnu",
        f"--exclude=./{_WORK_DIR_NAME}/.git/{packs_in_user_repo.ALTERNATES_FILE}",
        "-C",
        directory,
        "-cf",
        "-",
        ".",
    ]
    argv += ["-C", build_host.home.root, _COMPLETE_MARKER]
    sender = build_host.stream(argv, stdin=shell.DEVNULL, stdout=shell.PIPE, stderr=shell.DEVNULL)
    script_args = [
        host.home.root,
        record.id,
        os.path.basename(record.work_dir) if record.transfer != "none" else "",
        mode,
        source_copy,
    ]
    result = host_stream.send_from_process(
        host, ["sh", "-c", scripts.read_program("unpack_agent.sh"), "unpack_agent.sh", *script_args], sender
    )
    if result.code == 9:
        raise SourceObjectsMissing(result.error_line)
    if result.code == 8:
        raise MngrError(f"another agent uses {record.work_dir} on {host.name} now", "run the command again")
    # -13 is SIGPIPE: the receiver need not read the padding at the end of the archive.
    if result.code or sender.returncode not in (
        0,
        -13,
    ):
        raise MngrError(
            f"mngr could not copy {record.name} to {host.name}: {result.error_line}",
            shell.suggest_disk_check(host.home.root, host.name),
        )
