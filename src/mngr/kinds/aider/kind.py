"""Kind `aider`: aider in its terminal, run by a program of ours inside its own Python."""

from __future__ import annotations

import os

from mngr.host import scripts
from mngr.kinds.coding_agent import ProgramKind, mark_of, own_rows
from mngr.kinds.delivery import Delivery
from mngr.kinds.program_files import make_dirs, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

_OWN = "aider"  # its histories, in the agent's directory
_INSIDE = "aider_inside.py"
_BOX = "inbox"  # where that takes messages from
_CHAT = f"{_OWN}/chat.history.md"
# The Python that aider is run by stands in the first line of its program, or in the second if it is a long path.
RUN = """
path=$(command -v "$1") || { echo "$1: not found" >&2; exit 127; }
inside=$2
shift 2
{ read -r first; read -r second; } <"$path"
case $first in
'#!'*python*) python=${first#??} ;;
*) python=$(printf '%s\\n' "$second" | sed -n "s/^'''exec' [\\"']\\{0,1\\}\\([^\\"']*python[^\\"' ]*\\).*/\\1/p") ;;
esac
python=${python# }
[ -x "$python" ] || { echo "$path is not run by a Python of its own" >&2; exit 126; }
exec "$python" "$inside" "$@"
"""


class AiderKind(ProgramKind):
    """aider. It has no hooks: what runs it tells of it, keeps the conversation and hands it messages."""

    parent = "aider"
    summary = "aider"
    program = "aider"
    install = "python -m pip install aider-install && aider-install"
    answers = {"allow": "allow", "deny": "deny"}
    features = ("permissions", "resume", "usage", "cost", "limits")
    passes = (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENAI_API_BASE",
        "GEMINI_API_KEY",
        "DEEPSEEK_API_KEY",
        "OPENROUTER_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "XAI_API_KEY",
        "AIDER_MODEL",
        "AIDER_WEAK_MODEL",
        "AIDER_EDIT_FORMAT",
    )
    models = {"OPENAI_API_BASE": "https://api.openai.com"}
    unattended = ("--yes-always",)
    obeyed = "/!"
    conversation = ("transcript.jsonl",)
    writes = (_OWN, _BOX)
    keys = frozenset({"parent", "program", "args", "env"})  # its configuration and its login are the user's

    def prepare(self, host: Host, record: AgentRecord) -> None:
        make_dirs(host, record, _OWN, _BOX)
        write(host, record, _INSIDE, scripts.program_beside(__file__, _INSIDE).encode())

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        directory = host.home.agent(record.id)
        program, *words = self.words(host, record)
        own = [
            *("--chat-history-file", os.path.join(directory, _CHAT)),
            *("--input-history-file", os.path.join(directory, _OWN, "input.history")),
            "--no-gitignore",
            "--no-check-update",
            "--no-analytics",
            "--no-show-release-notes",
            "--no-show-model-warnings",
        ]
        if host.has(os.path.join(directory, _CHAT)):
            own.append("--restore-chat-history")
        return ["sh", "-c", RUN, "aider", program, os.path.join(directory, _INSIDE), *own, *words]

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        return Delivery(
            text=text,
            ready="status",
            proof="api",
            mark=mark_of(text),
            obeyed=self.obeyed,
            shut=self.shut,
            box=_BOX,
        )

    def answer(self, key: str) -> Delivery:
        return Delivery(text=key, ready="status", proof="api", keys=True, box=_BOX)

    def parse(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        return own_rows(lines)


def make(name: str, options: Any) -> AiderKind:
    """The kind under a name of the user's."""
    return AiderKind(name, options)
