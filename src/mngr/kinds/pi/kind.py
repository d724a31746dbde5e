"""Kind `pi`: pi in its terminal, with its own directory and with mngr's extension."""

from __future__ import annotations

import json
import os

from mngr.base.untrusted_json import as_objects, get_object, get_text
from mngr.host import scripts
from mngr.kinds.agent_files import (
    copy_to_agent,
    get_conversation,
    make_dirs,
    read_json,
    read_user_json,
    write_file,
)
from mngr.kinds.coding_agent import CodingAgentKind, encode_message_marker, parse_addresses
from mngr.kinds.delivery_plan import Delivery
from mngr.kinds.pi import transcript

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mngr.base.model import AgentRecord
    from mngr.base.untrusted_json import JsonObject
    from mngr.host.protocol import Host
    from mngr.kinds.transcript_entry import TranscriptEntry

_STATE_DIR = "pi"  # PI_CODING_AGENT_DIR, in the agent's directory
_EXTENSION_FILE = "pi.js"
_INBOX_DIR = "inbox"  # where the extension reads messages
_SESSIONS_DIR = f"{_STATE_DIR}/sessions"
_MODEL_SETTINGS = ("defaultProvider", "defaultModel", "defaultThinkingLevel", "enabledModels", "transport")
_EXCLUDED_SETTINGS = ("extensions", "packages", "sessionDir")
_CARRIED_FILES = {
    "memory": ("AGENTS.md",),
    "prompts": ("prompts",),
    "skills": ("skills",),
    "extensions": ("extensions",),
    "themes": ("themes",),
}
_API_KEY_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "XAI_API_KEY",
    "OPENROUTER_API_KEY",
    "OPENCODE_API_KEY",
)
# Prints the conversation that was last on the screen, else the latest. Its first row must name the current work dir.
_FIND_LATEST_SCRIPT = """
cd "$1" 2>/dev/null || exit 0
read -r file 2>/dev/null <session
file=sessions/${file##*/}
[ -s "$file" ] || file=sessions/$(ls -t sessions 2>/dev/null | head -n 1)
[ -f "$file" ] && [ -s "$file" ] || exit 0
head -n 1 "$file" | grep -qF -e "\\"cwd\\":$2" || {
    { head -n 1 "$file" | awk -v cwd="$2" '{
        i = index($0, "\\"cwd\\":\\"")
        rest = substr($0, i + 7)
        print substr($0, 1, i + 5) cwd substr(rest, match(rest, /[^\\\\]"/) + 2)
    }' && tail -n +2 "$file"; } >new && mv -f new "$file"
}
printf '%s\\n' "$PWD/$file"
"""


class PiKind(CodingAgentKind):
    """pi. mngr's extension reports its state and delivers messages through its API. It never asks for permission."""

    parent = "pi"
    summary = "pi"
    program = "pi"
    install = "npm install -g @mariozechner/pi-coding-agent"
    features = ("hooks", "tools", "resume", "usage", "cost", "limits")
    user_variables = _API_KEY_VARIABLES
    transcript_paths = (f"{_SESSIONS_DIR}/*.jsonl",)
    written_names = (f"{_STATE_DIR}/", f"{_INBOX_DIR}/")
    renewal_key = ("refresh", "")

    def get_user_variables(self) -> dict[str, str]:
        """Add the API key variables that the user's own model providers name."""
        named = [get_text(provider, "apiKey") for provider in _list_providers()]
        return {
            **{name: os.environ[name] for name in named if name in os.environ},
            **super().get_user_variables(),
        }

    def list_model_addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        return parse_addresses(get_text(provider, "baseUrl") for provider in _list_providers())

    def build_variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        state_dir = os.path.join(host.home.agent_dir(record.id), _STATE_DIR)
        return {"PI_CODING_AGENT_DIR": state_dir, "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}

    def prepare(self, host: Host, record: AgentRecord) -> None:
        make_dirs(host, record, _SESSIONS_DIR, _INBOX_DIR)
        write_file(host, record, _EXTENSION_FILE, scripts.read_program_beside(__file__, _EXTENSION_FILE).encode())
        carried = self.settings.carry
        user_settings = _read_user_json("settings.json")
        carried_settings = {key: user_settings[key] for key in _MODEL_SETTINGS if key in user_settings}
        if "settings" in carried:
            carried_settings = {key: value for key, value in user_settings.items() if key not in _EXCLUDED_SETTINGS}
        settings = {**carried_settings, **read_json(host, record, f"{_STATE_DIR}/settings.json"), "quietStartup": True}
        write_file(host, record, f"{_STATE_DIR}/settings.json", json.dumps(settings, indent=1).encode())
        copy_to_agent(host, record, os.path.join(_get_user_dir(), "models.json"), f"{_STATE_DIR}/models.json")
        for topic in carried:
            for name in _CARRIED_FILES.get(topic, ()):
                copy_to_agent(host, record, os.path.join(_get_user_dir(), name), os.path.join(_STATE_DIR, name))
        self.install_login(host, record)
        self.adopt_conversation(host, record, _SESSIONS_DIR)

    def list_login_files(self) -> dict[str, str]:
        return {os.path.join(_get_user_dir(), "auth.json"): f"{_STATE_DIR}/auth.json"}

    def get_user_conversation(self, name: str) -> str:
        sessions_dir = os.path.join(_get_user_dir(), "sessions")
        return get_conversation("pi", sessions_dir, name, lambda path: path.rpartition("_")[2][:-6])

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        directory = host.home.agent_dir(record.id)
        work_dir_json = json.dumps(record.work_dir, ensure_ascii=False)
        state_dir = os.path.join(directory, _STATE_DIR)
        session_file = host.run(["sh", "-c", _FIND_LATEST_SCRIPT, "latest", state_dir, work_dir_json]).text.strip()
        argv = [
            *self.build_base_command(host, record),
            "--extension",
            os.path.join(directory, _EXTENSION_FILE),
        ]
        argv += ["--session-dir", os.path.join(directory, _SESSIONS_DIR)]
        if any(
            argument in ("-c", "--continue", "-r", "--resume", "--session", "--fork") for argument in record.command
        ):
            return argv
        return [*argv, "--session", session_file] if session_file else argv

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        return Delivery(
            text=text,
            ready="status",
            proof="api",
            arrival_marker=encode_message_marker(text),
            inbox_dir=_INBOX_DIR,
        )

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        return transcript.parse(lines)


def make_kind(name: str, load_settings: Callable[[], Mapping[str, object]]) -> PiKind:
    """Return this kind under the name that the user's settings give it."""
    return PiKind(name, load_settings)


def _get_user_dir() -> str:
    return os.environ.get("PI_CODING_AGENT_DIR") or os.path.expanduser("~/.pi/agent")


def _read_user_json(name: str) -> JsonObject:
    return read_user_json(os.path.join(_get_user_dir(), name))


def _list_providers() -> list[JsonObject]:
    providers = get_object(_read_user_json("models.json"), "providers")
    return as_objects(list(providers.values()))
