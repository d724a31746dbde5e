"""Kind `pi`: pi in its terminal, with a directory of its own and an extension of ours inside."""

from __future__ import annotations

import json
import os

from mngr.host import scripts
from mngr.kinds.coding_agent import CodingAgentKind, encode_message_marker, parse_addresses
from mngr.kinds.delivery import Delivery
from mngr.kinds.pi import transcript
from mngr.kinds.program_files import (
    copy_to_agent,
    get_conversation,
    make_dirs,
    read_json,
    read_user_json,
    write_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

_STATE_DIR = "pi"  # PI_CODING_AGENT_DIR, in the agent's directory
_EXTENSION_FILE = "pi.js"
_INBOX_DIR = "inbox"  # where the extension takes messages from
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
# The conversation that was last on the screen, else the latest. It names the directory that it is about, and would go there.
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
    """pi. Our extension tells what it does and hands it messages through its own API. It never asks for permission."""

    parent = "pi"
    summary = "pi"
    program = "pi"
    install = "npm install -g @mariozechner/pi-coding-agent"
    features = ("hooks", "tools", "resume", "usage", "cost", "limits")
    user_variables = _API_KEY_VARIABLES
    transcript_paths = (f"{_SESSIONS_DIR}/*.jsonl",)
    writes = (_STATE_DIR, _INBOX_DIR)
    renewal_key = ("refresh", "")

    def get_user_variables(self) -> dict[str, str]:
        """Also the variables that the user's own providers of models go by."""
        named = [str(provider.get("apiKey")) for provider in _list_providers()]
        return {
            **{name: os.environ[name] for name in named if name in os.environ},
            **super().get_user_variables(),
        }

    def addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        return parse_addresses(str(provider.get("baseUrl", "")) for provider in _list_providers())

    def build_variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        own = os.path.join(host.home.agent_dir(record.id), _STATE_DIR)
        return {"PI_CODING_AGENT_DIR": own, "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}

    def prepare(self, host: Host, record: AgentRecord) -> None:
        make_dirs(host, record, _SESSIONS_DIR, _INBOX_DIR)
        write_file(host, record, _EXTENSION_FILE, scripts.read_program_beside(__file__, _EXTENSION_FILE).encode())
        wanted = list(self.options.get("carry") or [])
        user = _read_user_json("settings.json")
        taken = {key: user[key] for key in _MODEL_SETTINGS if key in user}
        if "settings" in wanted:
            taken = {key: value for key, value in user.items() if key not in _EXCLUDED_SETTINGS}
        settings = {**taken, **read_json(host, record, f"{_STATE_DIR}/settings.json"), "quietStartup": True}
        write_file(host, record, f"{_STATE_DIR}/settings.json", json.dumps(settings, indent=1).encode())
        copy_to_agent(host, record, os.path.join(_get_user_dir(), "models.json"), f"{_STATE_DIR}/models.json")
        for word in wanted:
            for name in _CARRIED_FILES.get(word, ()):
                copy_to_agent(host, record, os.path.join(_get_user_dir(), name), os.path.join(_STATE_DIR, name))
        self.install_login(host, record)
        self.adopt_conversation(host, record, _SESSIONS_DIR)

    def logins(self) -> dict[str, str]:
        return {os.path.join(_get_user_dir(), "auth.json"): f"{_STATE_DIR}/auth.json"}

    def get_user_conversation(self, name: str) -> str:
        place = os.path.join(_get_user_dir(), "sessions")
        return get_conversation("pi", place, name, lambda path: path.rpartition("_")[2][:-6])

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        directory = host.home.agent_dir(record.id)
        about = json.dumps(record.work_dir, ensure_ascii=False)
        own = os.path.join(directory, _STATE_DIR)
        found = host.run(["sh", "-c", _FIND_LATEST_SCRIPT, "latest", own, about]).text.strip()
        words = [
            *self.build_base_command(host, record),
            "--extension",
            os.path.join(directory, _EXTENSION_FILE),
        ]
        words += ["--session-dir", os.path.join(directory, _SESSIONS_DIR)]
        if any(word in ("-c", "--continue", "-r", "--resume", "--session", "--fork") for word in record.command):
            return words
        return [*words, "--session", found] if found else words

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        return Delivery(
            text=text,
            ready="status",
            proof="api",
            arrival_marker=encode_message_marker(text),
            inbox_dir=_INBOX_DIR,
        )

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        return transcript.parse(lines)


def make_kind(name: str, options: Any) -> PiKind:
    """The kind under a name of the user's."""
    return PiKind(name, options)


def _get_user_dir() -> str:
    return os.environ.get("PI_CODING_AGENT_DIR") or os.path.expanduser("~/.pi/agent")


def _read_user_json(name: str) -> dict[str, Any]:
    return read_user_json(os.path.join(_get_user_dir(), name))


def _list_providers() -> list[dict[str, Any]]:
    found = _read_user_json("models.json").get("providers")
    return [each for each in found.values() if isinstance(each, dict)] if isinstance(found, dict) else []
