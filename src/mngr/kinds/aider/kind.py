"""Kind `aider`: aider in its terminal, started by mngr's wrapper inside aider's own Python."""

from __future__ import annotations

import os

from mngr.host import scripts
from mngr.kinds.agent_files import make_dirs, write_file
from mngr.kinds.coding_agent import CodingAgentKind, encode_message_marker
from mngr.kinds.delivery_plan import Delivery
from mngr.kinds.transcript_entry import parse_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host
    from mngr.kinds.transcript_entry import TranscriptEntry

_STATE_DIR = "aider"  # in the agent's directory: aider's history files
_WRAPPER_FILE = "aider_wrapper.py"
_INBOX_DIR = "inbox"  # where the wrapper reads messages
_CHAT_HISTORY = f"{_STATE_DIR}/chat.history.md"
# The first line of aider's program names the Python that runs it. A long path is in the second line.
LAUNCH_SCRIPT = """
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


class AiderKind(CodingAgentKind):
    """aider. It has no hooks, so the wrapper reports its state, keeps the conversation and delivers messages."""

    parent = "aider"
    summary = "aider"
    program = "aider"
    install = "python -m pip install aider-install && aider-install"
    answer_keys = {"allow": "allow", "deny": "deny"}
    features = ("permissions", "resume", "usage", "cost", "limits")
    user_variables = (
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
    model_url_variables = {"OPENAI_API_BASE": "https://api.openai.com"}
    yolo_arguments = ("--yes-always",)
    obeyed = "/!"
    transcript_paths = ("transcript.jsonl",)
    written_names = (f"{_STATE_DIR}/", f"{_INBOX_DIR}/")
    keys = frozenset({"parent", "program", "args", "env"})  # aider uses the user's own configuration and login

    def prepare(self, host: Host, record: AgentRecord) -> None:
        make_dirs(host, record, _STATE_DIR, _INBOX_DIR)
        write_file(host, record, _WRAPPER_FILE, scripts.read_program_beside(__file__, _WRAPPER_FILE).encode())

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        directory = host.home.agent_dir(record.id)
        program, *arguments = self.build_base_command(host, record)
        wrapper_arguments = [
            *("--chat-history-file", os.path.join(directory, _CHAT_HISTORY)),
            *("--input-history-file", os.path.join(directory, _STATE_DIR, "input.history")),
            "--no-gitignore",
            "--no-check-update",
            "--no-analytics",
            "--no-show-release-notes",
            "--no-show-model-warnings",
        ]
        if host.has_path(os.path.join(directory, _CHAT_HISTORY)):
            wrapper_arguments.append("--restore-chat-history")
        return [
            "sh",
            "-c",
            LAUNCH_SCRIPT,
            "aider",
            program,
            os.path.join(directory, _WRAPPER_FILE),
            *wrapper_arguments,
            *arguments,
        ]

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        return Delivery(
            text=text,
            ready="status",
            proof="api",
            arrival_marker=encode_message_marker(text),
            command_prefixes=self.obeyed,
            blocking_reasons=self.blocking_reasons,
            inbox_dir=_INBOX_DIR,
        )

    def build_answer(self, key: str) -> Delivery:
        return Delivery(text=key, ready="status", proof="api", is_key=True, inbox_dir=_INBOX_DIR)

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        return parse_entries(lines)


def make_kind(name: str, load_settings: Callable[[], Mapping[str, object]]) -> AiderKind:
    """Return this kind under the name that the user's settings give it."""
    return AiderKind(name, load_settings)
