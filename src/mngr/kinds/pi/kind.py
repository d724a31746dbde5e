"""Kind `pi`: pi in its terminal, with a directory of its own and an extension of ours inside."""

from __future__ import annotations

import json
import os

from mngr.host import scripts
from mngr.kinds.coding_agent import ProgramKind, mark_of, places
from mngr.kinds.delivery import Delivery
from mngr.kinds.pi import transcript
from mngr.kinds.program_files import carry, find_conversation, make_dirs, read_json, read_user, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

_OWN = "pi"  # PI_CODING_AGENT_DIR, in the agent's directory
_EXTENSION = "pi.js"
_BOX = "inbox"  # where the extension takes messages from
_SESSIONS = f"{_OWN}/sessions"
_MODEL = ("defaultProvider", "defaultModel", "defaultThinkingLevel", "enabledModels", "transport")
_NOT_CARRIED = ("extensions", "packages", "sessionDir")
_FILES = {
    "memory": ("AGENTS.md",),
    "prompts": ("prompts",),
    "skills": ("skills",),
    "extensions": ("extensions",),
    "themes": ("themes",),
}
_KEYS = (
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
_LATEST = """
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


class PiKind(ProgramKind):
    """pi. Our extension tells what it does and hands it messages through its own API. It never asks for permission."""

    parent = "pi"
    summary = "pi"
    program = "pi"
    install = "npm install -g @mariozechner/pi-coding-agent"
    features = ("hooks", "tools", "resume", "usage", "cost", "limits")
    passes = _KEYS
    conversation = (f"{_SESSIONS}/*.jsonl",)
    writes = (_OWN, _BOX)
    renewal = ("refresh", "")

    def given(self) -> dict[str, str]:
        """Also the variables that the user's own providers of models go by."""
        named = [str(provider.get("apiKey")) for provider in _providers()]
        return {**{name: os.environ[name] for name in named if name in os.environ}, **super().given()}

    def addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        return places(str(provider.get("baseUrl", "")) for provider in _providers())

    def variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        own = os.path.join(host.home.agent(record.id), _OWN)
        return {"PI_CODING_AGENT_DIR": own, "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}

    def prepare(self, host: Host, record: AgentRecord) -> None:
        make_dirs(host, record, _SESSIONS, _BOX)
        write(host, record, _EXTENSION, scripts.program_beside(__file__, _EXTENSION).encode())
        wanted = list(self.options.get("carry") or [])
        user = _of_user("settings.json")
        taken = {key: user[key] for key in _MODEL if key in user}
        if "settings" in wanted:
            taken = {key: value for key, value in user.items() if key not in _NOT_CARRIED}
        settings = {**taken, **read_json(host, record, f"{_OWN}/settings.json"), "quietStartup": True}
        write(host, record, f"{_OWN}/settings.json", json.dumps(settings, indent=1).encode())
        carry(host, record, os.path.join(_user(), "models.json"), f"{_OWN}/models.json")
        for word in wanted:
            for name in _FILES.get(word, ()):
                carry(host, record, os.path.join(_user(), name), os.path.join(_OWN, name))
        self.log_in(host, record)
        self.adopt(host, record, _SESSIONS)

    def logins(self) -> dict[str, str]:
        return {os.path.join(_user(), "auth.json"): f"{_OWN}/auth.json"}

    def find_outside(self, name: str) -> str:
        place = os.path.join(_user(), "sessions")
        return find_conversation("pi", place, name, lambda path: path.rpartition("_")[2][:-6])

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        directory = host.home.agent(record.id)
        about = json.dumps(record.work_dir, ensure_ascii=False)
        own = os.path.join(directory, _OWN)
        found = host.run(["sh", "-c", _LATEST, "latest", own, about]).text.strip()
        words = [*self.words(host, record), "--extension", os.path.join(directory, _EXTENSION)]
        words += ["--session-dir", os.path.join(directory, _SESSIONS)]
        if any(
            word in ("-c", "--continue", "-r", "--resume", "--session", "--fork") for word in record.command
        ):
            return words
        return [*words, "--session", found] if found else words

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        return Delivery(text=text, ready="status", proof="api", mark=mark_of(text), box=_BOX)

    def parse(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        return transcript.parse(lines)


def make(name: str, options: Any) -> PiKind:
    """The kind under a name of the user's."""
    return PiKind(name, options)


def _user() -> str:
    return os.environ.get("PI_CODING_AGENT_DIR") or os.path.expanduser("~/.pi/agent")


def _of_user(name: str) -> dict[str, Any]:
    return read_user(os.path.join(_user(), name))


def _providers() -> list[dict[str, Any]]:
    found = _of_user("models.json").get("providers")
    return [each for each in found.values() if isinstance(each, dict)] if isinstance(found, dict) else []
