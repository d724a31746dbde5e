"""Kind `mechanic`: a rule-based agent without a model. It gets jobs as messages and does them by fixed rules."""

from __future__ import annotations

import os

from mngr.base.errors import UsageError
from mngr.kinds.coding_agent import reject_coding_options
from mngr.kinds.player.kind import PlayerKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host
    from mngr.kinds.protocol import KindOptions

_ARCHIVE_FILE = "mechanic.pyz"
_PACKAGES = ("e2e", "e2e/expectations", "kinds/mechanic/program")  # packages that the archive contains completely


class MechanicKind(PlayerKind):
    """Sends its program to the host as one archive, which needs only Python and git there."""

    name = "mechanic"
    summary = (
        "a rule-based agent without a model, which writes and repairs tests for `mngr tutorial sync` and `mngr tmr run`"
    )
    programs = ("python3", "git")

    def check_arguments(self, args: list[str], options: KindOptions) -> None:
        reject_coding_options(self.name, options)
        if args:
            raise UsageError(
                f"the agent kind mechanic takes no arguments, but you gave {args[0]!r}",
                "create it without arguments: mngr create NAME mechanic",
            )

    def prepare(self, host: Host, record: AgentRecord) -> None:
        host.write(os.path.join(host.home.agent_dir(record.id), _ARCHIVE_FILE), build_archive())

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        return ["python3", os.path.join(host.home.agent_dir(record.id), _ARCHIVE_FILE)]


def build_archive() -> bytes:
    """Return a zip archive of the program and the mngr modules that it imports."""
    import io
    import zipfile

    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr(
            "__main__.py", "import sys\nfrom mngr.kinds.mechanic.program.main import main\nsys.exit(main())\n"
        )
        for package in ("kinds", "kinds/mechanic", "kinds/player"):
            zipped.writestr(f"mngr/{package}/__init__.py", "")
        names = ["__init__.py", "kinds/player/player.py"]
        names += [
            f"{package_dir}/{name}"
            for package_dir in _PACKAGES
            for name in sorted(os.listdir(os.path.join(root, package_dir)))
        ]
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(root, name), "rb") as file:
                    zipped.writestr(f"mngr/{name}", file.read())
    return data.getvalue()


KIND = MechanicKind()
