"""Kind `gemini`: Gemini CLI in its terminal, with a home of its own."""

from __future__ import annotations

import json
import os
import re

from mngr.base import clock
from mngr.base.model import AgentState
from mngr.host import scripts
from mngr.kinds import limit_resets, screens
from mngr.kinds.coding_agent import CodingAgentKind, build_hook_command, park_if_limited
from mngr.kinds.gemini import transcript
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

    from mngr.base.model import AgentRecord, Evidence
    from mngr.host.protocol import Host
    from mngr.kinds.delivery import Delivery

_HOME_DIR = "gemini"  # GEMINI_CLI_HOME, in the agent's directory
_CONFIG_DIR = f"{_HOME_DIR}/.gemini"
_HOOK_FILE = "gemini.sh"
_PROJECT_NAME = "work"  # the name under which it keeps all that is about the work dir, wherever that is
_CHATS_DIR = f"{_CONFIG_DIR}/tmp/{_PROJECT_NAME}/chats"
_HOOKS = {
    "SessionStart": f'sh "$MNGR_AGENT_DIR/{_HOOK_FILE}" ready',
    "BeforeAgent": f'sh "$MNGR_AGENT_DIR/{_HOOK_FILE}" message',
    "AfterAgent": f'sh "$MNGR_AGENT_DIR/{_HOOK_FILE}" end',
    "BeforeTool": build_hook_command("tool_start", "RUNNING"),
    "AfterTool": build_hook_command("tool_end", "RUNNING"),
    "Notification": build_hook_command("permission", "WAITING", "permission"),
}
_PERMISSION_TITLE = "Action Required"  # in the title of its terminal
# Where it gave up it asks, and takes no message before that is answered.
_GAVE_UP_PATTERN = r"^│ [● ] \([0-9]\)\. Stop\( - Abort request\)\{0,1\} *│ *$"
_PROMPT_PATTERN = "^ [>*!] "
_ENTER_DELAY = 0.15  # seconds in which it takes Enter for a part of what was pasted
_ENTER_DELAY_PER_CHARACTER = 1e-5  # and so many more for each character
_CARRIED_FILES = {"memory": "GEMINI.md", "commands": "commands", "agents": "agents", "skills": "skills"}
_LOGIN_FILES = ("oauth_creds.json", "google_accounts.json", ".env")
_MODEL_SETTINGS = ("model", "modelConfigs")  # of his settings, by which it finds a model
_TIME_WITH_ZONE = re.compile(r"(\d [AP]M) ([A-Z]{3,4})\b")
# The latest conversation in which something was said, by its name.
_FIND_LATEST_SCRIPT = """
cd "$1" 2>/dev/null || exit 0
ls -t ".gemini/tmp/$2/chats" 2>/dev/null | while IFS= read -r name; do
    file=.gemini/tmp/$2/chats/$name
    grep -q '^{"id":"[^"]*","timestamp":"[^"]*","type":"gemini"' "$file" 2>/dev/null || continue
    head -n 1 "$file" | sed -n 's/^{"sessionId":"\\([0-9a-f-]*\\)".*/\\1/p'
    break
done
"""


class GeminiKind(CodingAgentKind):
    """Gemini CLI. Its state comes from its hooks and the title of its terminal; that it gave up, from its screen."""

    parent = "gemini"
    summary = "Gemini CLI"
    program = "gemini"
    install = "npm install -g @google/gemini-cli"
    answer_keys = {"allow": "1", "deny": "Escape"}
    features = ("hooks", "permissions", "questions", "tools", "resume", "usage", "limits")
    user_variables = (
        "GEMINI_API_KEY",
        "GEMINI_MODEL",
        "GOOGLE_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_APPLICATION_CREDENTIALS",
    )
    model_url_variables = {"GOOGLE_GEMINI_BASE_URL": "https://generativelanguage.googleapis.com"}
    yolo_arguments = ("--approval-mode", "yolo")
    ask_arguments = ("--approval-mode", "default")
    paste_patterns = ("[Pasted Text: ",)
    clear = "C-w"
    empty = " >   Type your message or @path/to/file\n *   Type your message or @path/to/file"
    obeyed = "/!?"
    transcript_paths = (f"{_CONFIG_DIR}/tmp/*/chats/session-*.jsonl",)
    writes = (_HOME_DIR,)
    renewal_key = ("refresh_token", None)

    def build_variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        return {
            "GEMINI_CLI_HOME": os.path.join(host.home.agent_dir(record.id), _HOME_DIR),
            "GEMINI_CLI_NO_RELAUNCH": "1",  # or there are two of it, of which one outlives the other
        }

    def prepare(self, host: Host, record: AgentRecord) -> None:
        super().prepare(host, record)
        history = f"{_CONFIG_DIR}/history/{_PROJECT_NAME}"
        make_dirs(host, record, _CHATS_DIR, history)
        carried = self.options.get("carry") or []
        write_file(host, record, _HOOK_FILE, scripts.read_program_beside(__file__, _HOOK_FILE).encode())
        known = {"projects": {record.work_dir: _PROJECT_NAME}}
        write_file(host, record, f"{_CONFIG_DIR}/projects.json", json.dumps(known).encode())
        for place in (os.path.dirname(_CHATS_DIR), history):
            write_file(host, record, f"{place}/.project_root", record.work_dir.encode())
        settings = self._build_settings(read_json(host, record, f"{_CONFIG_DIR}/settings.json"), carried)
        write_file(host, record, f"{_CONFIG_DIR}/settings.json", json.dumps(settings, indent=1).encode())
        for word in carried:
            if word in _CARRIED_FILES:
                copy_to_agent(
                    host,
                    record,
                    os.path.join(_get_user_dir(), _CARRIED_FILES[word]),
                    os.path.join(_CONFIG_DIR, _CARRIED_FILES[word]),
                )
        self.install_login(host, record)
        self.adopt_conversation(host, record, _CHATS_DIR)

    def _build_settings(self, own: dict[str, Any], carried: list[str]) -> dict[str, Any]:
        """What the program noted itself, what is the user's, and what passes every dialog and tells us of it."""
        user = _read_user_json("settings.json")
        taken = {key: user[key] for key in _MODEL_SETTINGS if key in user}
        if "settings" in carried:
            taken = {key: value for key, value in user.items() if key not in ("hooks", "mcpServers")}
        if "mcp" in carried and "mcpServers" in user:
            taken["mcpServers"] = user["mcpServers"]
        found = {**taken, **own}
        security = _get_table(found, "security")
        auth = {**_get_table(_get_table(user, "security"), "auth"), **_get_table(security, "auth")}
        if "selectedType" not in auth:
            auth["selectedType"] = _choose_auth_type()
        hooks = {
            event: [{"hooks": [{"type": "command", "command": line, "name": "mngr", "timeout": 10000}]}]
            for event, line in _HOOKS.items()
        }
        asked = {"enableAutoUpdate": False, "enableAutoUpdateNotification": False}
        kept = {"sessionRetention": {"enabled": False}}
        shown = {"showStatusInTitle": False, "dynamicWindowTitle": True, "hideWindowTitle": False}
        return {
            **found,
            "general": {**_get_table(found, "general"), **asked, **kept},
            "ui": {**_get_table(found, "ui"), **shown, "errorVerbosity": "full"},  # or it never gives up
            "privacy": {"usageStatisticsEnabled": False},
            "security": {**security, "auth": auth, "folderTrust": {"enabled": False}},
            "hooksConfig": {"enabled": True, "notifications": False},
            "hooks": hooks,
        }

    def logins(self) -> dict[str, str]:
        return {os.path.join(_get_user_dir(), name): f"{_CONFIG_DIR}/{name}" for name in _LOGIN_FILES}

    def get_user_conversation(self, name: str) -> str:
        return get_conversation("Gemini CLI", os.path.join(_get_user_dir(), "tmp"), name, _read_session_id)

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        place = os.path.join(host.home.agent_dir(record.id), _HOME_DIR)
        found = host.run(["sh", "-c", _FIND_LATEST_SCRIPT, "latest", place, _PROJECT_NAME]).text.strip()
        words = [
            "sh",
            os.path.join(host.home.agent_dir(record.id), _HOOK_FILE),
            "run",
            *self.build_base_command(host, record),
        ]
        if any(word in ("-r", "--resume", "--session-id", "--session-file") for word in record.command):
            return words
        return [*words, "--resume", found] if found else words

    def refine_state(self, evidence: Evidence, state: AgentState) -> AgentState:
        state = park_if_limited(evidence, state)
        asks = _PERMISSION_TITLE in (evidence.pane or {}).get("title", "")
        if state.state == "WAITING" and state.reason in self.blocking_reasons and not asks:
            return AgentState(state="RUNNING", source="screen", since=state.since)  # answered, or about to ask
        if state.state != "RUNNING":
            return state
        if asks:
            return AgentState(state="WAITING", reason="question", source="screen", since=state.since)
        shown = None if evidence.screen is None else screens.find_state(self.parent, evidence.screen)
        if shown is None:
            return state
        until = _find_reset_time(evidence, state) if shown[1] == "quota" else None
        return state.replace(state=shown[0], reason=shown[1], source="screen", parked_until=until)

    def wants_screen(self, evidence: Evidence, state: AgentState) -> bool:
        # Neither a hook nor its title tells that it gave up.
        age = evidence.now - clock.parse_timestamp(state.since or clock.format_timestamp())
        return state.state == "RUNNING" and age > 1.0

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        said = text.rstrip()
        if said.endswith("\\"):
            said += " "  # it would take that for: another line follows
        pause = _ENTER_DELAY + len(said) * _ENTER_DELAY_PER_CHARACTER
        usual = super().delivery(record, said)
        return usual.replace(
            ready=f"{_HOME_DIR}/idle", pause=pause, dialog_pattern=_GAVE_UP_PATTERN, prompt=_PROMPT_PATTERN
        )

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        return transcript.parse(lines)


def make_kind(name: str, options: Any) -> GeminiKind:
    """The kind under a name of the user's."""
    return GeminiKind(name, options)


def _find_reset_time(evidence: Evidence, state: AgentState) -> str | None:
    """When a limit ends, as the program tells people: `Access resets at 5:04 PM UTC.`"""
    told = " ".join(line.strip("│ ") for line in (evidence.screen or "").splitlines())
    found = limit_resets.find_reset(_TIME_WITH_ZONE.sub(r"\1 (\2)", told))
    return None if found is None else limit_resets.parse_reset(found, state.since, evidence.now)


def _choose_auth_type() -> str:
    """How the user logs in who has not chosen: what the program would offer him."""
    if os.environ.get("GOOGLE_GENAI_USE_VERTEXAI") == "true":
        return "vertex-ai"
    return "oauth-personal" if os.path.isfile(os.path.join(_get_user_dir(), _LOGIN_FILES[0])) else "gemini-api-key"


def _get_user_dir() -> str:
    return os.path.join(os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~"), ".gemini")


def _read_user_json(name: str) -> dict[str, Any]:
    return read_user_json(os.path.join(_get_user_dir(), name))


def _read_session_id(path: str) -> str:
    if not os.path.basename(path).startswith("session-"):
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return str(json.loads(file.readline()).get("sessionId"))
    except (OSError, ValueError, AttributeError):
        return ""


def _get_table(found: dict[str, Any], name: str) -> dict[str, Any]:
    table = found.get(name)
    return table if isinstance(table, dict) else {}
