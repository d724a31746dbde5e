"""Kind `gemini`: Gemini CLI in its terminal, with a home of its own."""

from __future__ import annotations

import json
import os
import re

from mngr.base import clock
from mngr.base.model import State
from mngr.host import scripts
from mngr.kinds import limit_resets, screens
from mngr.kinds.coding_agent import ProgramKind, hook, parked
from mngr.kinds.gemini import transcript
from mngr.kinds.program_files import carry, find_conversation, make_dirs, read_json, read_user, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mngr.base.model import AgentRecord, Evidence
    from mngr.host.protocol import Host
    from mngr.kinds.delivery import Delivery

_HOME = "gemini"  # GEMINI_CLI_HOME, in the agent's directory
_CONFIG = f"{_HOME}/.gemini"
_HOOK = "gemini.sh"
_PROJECT = "work"  # the name under which it keeps all that is about the work dir, wherever that is
_CHATS = f"{_CONFIG}/tmp/{_PROJECT}/chats"
_HOOKS = {
    "SessionStart": f'sh "$MNGR_AGENT_DIR/{_HOOK}" ready',
    "BeforeAgent": f'sh "$MNGR_AGENT_DIR/{_HOOK}" message',
    "AfterAgent": f'sh "$MNGR_AGENT_DIR/{_HOOK}" end',
    "BeforeTool": hook("tool_start", "RUNNING"),
    "AfterTool": hook("tool_end", "RUNNING"),
    "Notification": hook("permission", "WAITING", "permission"),
}
_ASKS = "Action Required"  # in the title of its terminal
# Where it gave up it asks, and takes no message before that is answered.
_GAVE_UP = r"^│ [● ] \([0-9]\)\. Stop\( - Abort request\)\{0,1\} *│ *$"
_PROMPT = "^ [>*!] "
_ENTER = 0.15  # seconds in which it takes Enter for a part of what was pasted
_ENTER_EACH = 1e-5  # and so many more for each character
_FILES = {"memory": "GEMINI.md", "commands": "commands", "agents": "agents", "skills": "skills"}
_LOGIN = ("oauth_creds.json", "google_accounts.json", ".env")
_MODEL = ("model", "modelConfigs")  # of his settings, by which it finds a model
_ZONE = re.compile(r"(\d [AP]M) ([A-Z]{3,4})\b")
# The latest conversation in which something was said, by its name.
_LATEST = """
cd "$1" 2>/dev/null || exit 0
ls -t ".gemini/tmp/$2/chats" 2>/dev/null | while IFS= read -r name; do
    file=.gemini/tmp/$2/chats/$name
    grep -q '^{"id":"[^"]*","timestamp":"[^"]*","type":"gemini"' "$file" 2>/dev/null || continue
    head -n 1 "$file" | sed -n 's/^{"sessionId":"\\([0-9a-f-]*\\)".*/\\1/p'
    break
done
"""


class GeminiKind(ProgramKind):
    """Gemini CLI. Its state comes from its hooks and the title of its terminal; that it gave up, from its screen."""

    parent = "gemini"
    summary = "Gemini CLI"
    program = "gemini"
    install = "npm install -g @google/gemini-cli"
    answers = {"allow": "1", "deny": "Escape"}
    features = ("hooks", "permissions", "questions", "tools", "resume", "usage", "limits")
    passes = (
        "GEMINI_API_KEY",
        "GEMINI_MODEL",
        "GOOGLE_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_APPLICATION_CREDENTIALS",
    )
    models = {"GOOGLE_GEMINI_BASE_URL": "https://generativelanguage.googleapis.com"}
    unattended = ("--approval-mode", "yolo")
    careful = ("--approval-mode", "default")
    pasted = ("[Pasted Text: ",)
    clear = "C-w"
    empty = " >   Type your message or @path/to/file\n *   Type your message or @path/to/file"
    obeyed = "/!?"
    conversation = (f"{_CONFIG}/tmp/*/chats/session-*.jsonl",)
    writes = (_HOME,)
    renewal = ("refresh_token", None)

    def variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        return {
            "GEMINI_CLI_HOME": os.path.join(host.home.agent(record.id), _HOME),
            "GEMINI_CLI_NO_RELAUNCH": "1",  # or there are two of it, of which one outlives the other
        }

    def prepare(self, host: Host, record: AgentRecord) -> None:
        super().prepare(host, record)
        history = f"{_CONFIG}/history/{_PROJECT}"
        make_dirs(host, record, _CHATS, history)
        carried = self.options.get("carry") or []
        write(host, record, _HOOK, scripts.program_beside(__file__, _HOOK).encode())
        known = {"projects": {record.work_dir: _PROJECT}}
        write(host, record, f"{_CONFIG}/projects.json", json.dumps(known).encode())
        for place in (os.path.dirname(_CHATS), history):
            write(host, record, f"{place}/.project_root", record.work_dir.encode())
        settings = self._settings(read_json(host, record, f"{_CONFIG}/settings.json"), carried)
        write(host, record, f"{_CONFIG}/settings.json", json.dumps(settings, indent=1).encode())
        for word in carried:
            if word in _FILES:
                carry(host, record, os.path.join(_user(), _FILES[word]), os.path.join(_CONFIG, _FILES[word]))
        self.log_in(host, record)
        self.adopt(host, record, _CHATS)

    def _settings(self, own: dict[str, Any], carried: list[str]) -> dict[str, Any]:
        """What the program noted itself, what is the user's, and what passes every dialog and tells us of it."""
        user = _of_user("settings.json")
        taken = {key: user[key] for key in _MODEL if key in user}
        if "settings" in carried:
            taken = {key: value for key, value in user.items() if key not in ("hooks", "mcpServers")}
        if "mcp" in carried and "mcpServers" in user:
            taken["mcpServers"] = user["mcpServers"]
        found = {**taken, **own}
        security = _table(found, "security")
        auth = {**_table(_table(user, "security"), "auth"), **_table(security, "auth")}
        if "selectedType" not in auth:
            auth["selectedType"] = _way_in()
        hooks = {
            event: [{"hooks": [{"type": "command", "command": line, "name": "mngr", "timeout": 10000}]}]
            for event, line in _HOOKS.items()
        }
        asked = {"enableAutoUpdate": False, "enableAutoUpdateNotification": False}
        kept = {"sessionRetention": {"enabled": False}}
        shown = {"showStatusInTitle": False, "dynamicWindowTitle": True, "hideWindowTitle": False}
        return {
            **found,
            "general": {**_table(found, "general"), **asked, **kept},
            "ui": {**_table(found, "ui"), **shown, "errorVerbosity": "full"},  # or it never gives up
            "privacy": {"usageStatisticsEnabled": False},
            "security": {**security, "auth": auth, "folderTrust": {"enabled": False}},
            "hooksConfig": {"enabled": True, "notifications": False},
            "hooks": hooks,
        }

    def logins(self) -> dict[str, str]:
        return {os.path.join(_user(), name): f"{_CONFIG}/{name}" for name in _LOGIN}

    def find_outside(self, name: str) -> str:
        return find_conversation("Gemini CLI", os.path.join(_user(), "tmp"), name, _session_of)

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        place = os.path.join(host.home.agent(record.id), _HOME)
        found = host.run(["sh", "-c", _LATEST, "latest", place, _PROJECT]).text.strip()
        words = ["sh", os.path.join(host.home.agent(record.id), _HOOK), "run", *self.words(host, record)]
        if any(word in ("-r", "--resume", "--session-id", "--session-file") for word in record.command):
            return words
        return [*words, "--resume", found] if found else words

    def judge(self, evidence: Evidence, state: State) -> State:
        state = parked(evidence, state)
        asks = _ASKS in (evidence.pane or {}).get("title", "")
        if state.state == "WAITING" and state.reason in self.shut and not asks:
            return State(state="RUNNING", source="screen", since=state.since)  # answered, or about to ask
        if state.state != "RUNNING":
            return state
        if asks:
            return State(state="WAITING", reason="question", source="screen", since=state.since)
        shown = None if evidence.screen is None else screens.read(self.parent, evidence.screen)
        if shown is None:
            return state
        until = _until(evidence, state) if shown[1] == "quota" else None
        return state.replace(state=shown[0], reason=shown[1], source="screen", parked_until=until)

    def wants_screen(self, evidence: Evidence, state: State) -> bool:
        # Neither a hook nor its title tells that it gave up.
        age = evidence.now - clock.parse_stamp(state.since or clock.stamp())
        return state.state == "RUNNING" and age > 1.0

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        said = text.rstrip()
        if said.endswith("\\"):
            said += " "  # it would take that for: another line follows
        pause = _ENTER + len(said) * _ENTER_EACH
        usual = super().delivery(record, said)
        return usual.replace(ready=f"{_HOME}/idle", pause=pause, dialog=_GAVE_UP, prompt=_PROMPT)

    def parse(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        return transcript.parse(lines)


def make(name: str, options: Any) -> GeminiKind:
    """The kind under a name of the user's."""
    return GeminiKind(name, options)


def _until(evidence: Evidence, state: State) -> str | None:
    """When a limit ends, as the program tells people: `Access resets at 5:04 PM UTC.`"""
    told = " ".join(line.strip("│ ") for line in (evidence.screen or "").splitlines())
    found = limit_resets.search(_ZONE.sub(r"\1 (\2)", told))
    return None if found is None else limit_resets.parse(found, state.since, evidence.now)


def _way_in() -> str:
    """How the user logs in who has not chosen: what the program would offer him."""
    if os.environ.get("GOOGLE_GENAI_USE_VERTEXAI") == "true":
        return "vertex-ai"
    return "oauth-personal" if os.path.isfile(os.path.join(_user(), _LOGIN[0])) else "gemini-api-key"


def _user() -> str:
    return os.path.join(os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~"), ".gemini")


def _of_user(name: str) -> dict[str, Any]:
    return read_user(os.path.join(_user(), name))


def _session_of(path: str) -> str:
    if not os.path.basename(path).startswith("session-"):
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return str(json.loads(file.readline()).get("sessionId"))
    except (OSError, ValueError, AttributeError):
        return ""


def _table(found: dict[str, Any], name: str) -> dict[str, Any]:
    table = found.get(name)
    return table if isinstance(table, dict) else {}
