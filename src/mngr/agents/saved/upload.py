"""An agent that was made here, sent to its host in one stream: all of it arrives, or nothing."""

from __future__ import annotations

import os
import stat

from mngr.agents.saved import host_stream, shared_packs
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord
from mngr.host import scripts
from mngr.host.protocol import Host

_WORK_DIR_NAME, _COMPLETE_MARKER = "landing", "complete"
UPLOAD_NAMES = (_WORK_DIR_NAME, _COMPLETE_MARKER)  # in an agent's directory, while it is on its way


def get_upload_work_dir(build: Host, record: AgentRecord) -> str:
    """Where its work dir is made."""
    return os.path.join(build.home.agent_dir(record.id), _WORK_DIR_NAME)


class SourceObjectsMissing(MngrError):
    """The copy of the source on the host does not have all that the agent's repository needs."""


def upload_agent(build: Host, host: Host, record: AgentRecord, near: str = "") -> None:
    """Send the agent's files and work dir into the directory that is reserved for it; raises MngrError, Unreachable.

    With `near` the repository borrows objects here, and is made whole there from that one. Lacking.
    """
    directory, work = build.home.agent_dir(record.id), get_upload_work_dir(build, record)
    mode = "0"
    if record.transfer != "none":
        bits = stat.S_IMODE(os.stat(work).st_mode)
        os.chmod(work, bits | 0o700)  # or it cannot be moved into its place
        mode = f"{bits:o}"
    build.write(os.path.join(build.home.root, _COMPLETE_MARKER), b"")
    # Plain tar there knows long names of this format only.
    argv = [
        "tar",
        "--format=gnu",
        f"--exclude=./{_WORK_DIR_NAME}/.git/{shared_packs.ALTERNATES_FILE}",
        "-C",
        directory,
        "-cf",
        "-",
        ".",
    ]
    argv += ["-C", build.home.root, _COMPLETE_MARKER]
    pack = build.stream(argv, stdin=shell.DEVNULL, stdout=shell.PIPE, stderr=shell.DEVNULL)
    words = [
        host.home.root,
        record.id,
        os.path.basename(record.work_dir) if record.transfer != "none" else "",
        mode,
        near,
    ]
    result = host_stream.send_from_process(host, ["sh", "-c", scripts.read_program("land.sh"), "land.sh", *words], pack)
    if result.code == 9:
        raise SourceObjectsMissing(result.error_line)
    if result.code == 8:
        raise MngrError(f"{record.work_dir} on {host.name} is somebody else's by now", "try again")
    if result.code or pack.returncode not in (
        0,
        -13,
    ):  # at the end of an archive nobody reads what fills its last block
        raise MngrError(
            f"{record.name} could not be sent to {host.name}: {result.error_line}",
            "check space and permissions there",
        )
