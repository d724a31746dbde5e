"""Kind `gemini`: Gemini CLI in its terminal, with its own home."""

from __future__ import annotations

import json
import os
import re

from mngr.base import time_format
from mngr.base.model import AgentState
from mngr.base.untrusted_json import get_object, parse_json
from mngr.host import scripts
from mngr.kinds import limit_resets, state_from_screen
from mngr.kinds.agent_files import (
    copy_to_agent,
    get_conversation,
    make_dirs,
    read_json,
    read_user_json,
    write_file,
)
from mngr.kinds.coding_agent import CodingAgentKind, build_hook_command, park_if_limited
from mngr.kinds.gemini import transcript

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mngr.base.model import AgentRecord, Evidence
    from mngr.base.untrusted_json import JsonObject
    from mngr.host.protocol import Host
    from mngr.kinds.delivery_plan import Delivery
    from mngr.kinds.transcript_entry import TranscriptEntry

_HOME_DIR = "gemini"  # GEMINI_CLI_HOME, in the agent's directory
_CONFIG_DIR = f"{_HOME_DIR}/.gemini"
_HOOK_FILE = "gemini.sh"
_PROJECT_NAME = "work"  # its name for the work dir, the same wherever the work dir is
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
# When it gives up, it shows a dialog and accepts no message before that is answered.
_GAVE_UP_PATTERN = r"^│ [● ] \([0-9]\)\. Stop\( - Abort request\)\{0,1\} *│ *$"
_PROMPT_PATTERN = "^ [>*!] "
_ENTER_DELAY = 0.15  # seconds in which Enter still counts as a part of the paste
_ENTER_DELAY_PER_CHARACTER = 1e-5  # more seconds for each character
_CARRIED_FILES = {"memory": "GEMINI.md", "commands": "commands", "agents": "agents", "skills": "skills"}
_LOGIN_FILES = ("oauth_creds.json", "google_accounts.json", ".env")
_MODEL_SETTINGS = ("model", "modelConfigs")  # the user's settings that select a model
_TIME_WITH_ZONE = re.compile(r"(\d [AP]M) ([A-Z]{3,4})\b")
# Prints the session id of the latest conversation that has an answer.
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
    """Gemini CLI. Its state comes from its hooks and its terminal's title; only its screen shows that it gave up."""

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
    written_names = (f"{_HOME_DIR}/",)
    renewal_key = ("refresh_token", None)

    def build_variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        return {
            "GEMINI_CLI_HOME": os.path.join(host.home.agent_dir(record.id), _HOME_DIR),
            "GEMINI_CLI_NO_RELAUNCH": "1",  # otherwise it starts a second process that may outlive the first
        }

    def prepare(self, host: Host, record: AgentRecord) -> None:
        super().prepare(host, record)
        history = f"{_CONFIG_DIR}/history/{_PROJECT_NAME}"
        make_dirs(host, record, _CHATS_DIR, history)
        carried = self.settings.carry
        write_file(host, record, _HOOK_FILE, scripts.read_program_beside(__file__, _HOOK_FILE).encode())
        projects = {"projects": {record.work_dir: _PROJECT_NAME}}
        write_file(host, record, f"{_CONFIG_DIR}/projects.json", json.dumps(projects).encode())
        for project_dir in (os.path.dirname(_CHATS_DIR), history):
            write_file(host, record, f"{project_dir}/.project_root", record.work_dir.encode())
        settings = self._build_settings(read_json(host, record, f"{_CONFIG_DIR}/settings.json"), carried)
        write_file(host, record, f"{_CONFIG_DIR}/settings.json", json.dumps(settings, indent=1).encode())
        for topic in carried:
            if topic in _CARRIED_FILES:
                copy_to_agent(
                    host,
                    record,
                    os.path.join(_get_user_dir(), _CARRIED_FILES[topic]),
                    os.path.join(_CONFIG_DIR, _CARRIED_FILES[topic]),
                )
        self.install_login(host, record)
        self.adopt_conversation(host, record, _CHATS_DIR)

    def _build_settings(self, own_settings: JsonObject, carried: list[str]) -> JsonObject:
        """Return the agent's own settings, the user's, and those that set mngr's hooks and avoid every dialog."""
        user_settings = _read_user_json("settings.json")
        carried_settings = {key: user_settings[key] for key in _MODEL_SETTINGS if key in user_settings}
        if "settings" in carried:
            carried_settings = {
                key: value for key, value in user_settings.items() if key not in ("hooks", "mcpServers")
            }
        if "mcp" in carried and "mcpServers" in user_settings:
            carried_settings["mcpServers"] = user_settings["mcpServers"]
        settings = {**carried_settings, **own_settings}
        security = get_object(settings, "security")
        auth = {**get_object(get_object(user_settings, "security"), "auth"), **get_object(security, "auth")}
        if "selectedType" not in auth:
            auth["selectedType"] = _choose_auth_type()
        hooks = {
            event: [{"hooks": [{"type": "command", "command": line, "name": "mngr", "timeout": 10000}]}]
            for event, line in _HOOKS.items()
        }
        updates = {"enableAutoUpdate": False, "enableAutoUpdateNotification": False}
        retention = {"sessionRetention": {"enabled": False}}
        title = {"showStatusInTitle": False, "dynamicWindowTitle": True, "hideWindowTitle": False}
        return {
            **settings,
            "general": {**get_object(settings, "general"), **updates, **retention},
            "ui": {**get_object(settings, "ui"), **title, "errorVerbosity": "full"},  # otherwise it never gives up
            "privacy": {"usageStatisticsEnabled": False},
            "security": {**security, "auth": auth, "folderTrust": {"enabled": False}},
            "hooksConfig": {"enabled": True, "notifications": False},
            "hooks": hooks,
        }

    def list_login_files(self) -> dict[str, str]:
        return {os.path.join(_get_user_dir(), name): f"{_CONFIG_DIR}/{name}" for name in _LOGIN_FILES}

    def get_user_conversation(self, name: str) -> str:
        return get_conversation("Gemini CLI", os.path.join(_get_user_dir(), "tmp"), name, _read_session_id)

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        home_dir = os.path.join(host.home.agent_dir(record.id), _HOME_DIR)
        session_id = host.run(["sh", "-c", _FIND_LATEST_SCRIPT, "latest", home_dir, _PROJECT_NAME]).text.strip()
        argv = [
            "sh",
            os.path.join(host.home.agent_dir(record.id), _HOOK_FILE),
            "run",
            *self.build_base_command(host, record),
        ]
        if any(argument in ("-r", "--resume", "--session-id", "--session-file") for argument in record.command):
            return argv
        return [*argv, "--resume", session_id] if session_id else argv

    def refine_state(self, evidence: Evidence, state: AgentState) -> AgentState:
        state = park_if_limited(evidence, state)
        is_asking = _PERMISSION_TITLE in (evidence.pane or {}).get("title", "")
        if state.state == "WAITING" and state.reason in self.blocking_reasons and not is_asking:
            return AgentState(state="RUNNING", source="screen", since=state.since)  # answered, or about to ask
        if state.state != "RUNNING":
            return state
        if is_asking:
            return AgentState(state="WAITING", reason="question", source="screen", since=state.since)
        screen_state = None if evidence.screen is None else state_from_screen.find_state(self.parent, evidence.screen)
        if screen_state is None:
            return state
        until = _find_reset_time(evidence, state) if screen_state[1] == "quota" else None
        return state.replace(state=screen_state[0], reason=screen_state[1], source="screen", parked_until=until)

    def is_screen_needed(self, evidence: Evidence, state: AgentState) -> bool:
        # Neither a hook nor the title shows that it gave up.
        age = evidence.now - time_format.parse_timestamp(state.since or time_format.format_timestamp())
        return state.state == "RUNNING" and age > 1.0

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        message = text.rstrip()
        if message.endswith("\\"):
            message += " "  # A backslash at the end would mean that another line follows.
        pause = _ENTER_DELAY + len(message) * _ENTER_DELAY_PER_CHARACTER
        delivery = super().delivery(record, message)
        return delivery.replace(
            ready=f"{_HOME_DIR}/idle", pause=pause, dialog_pattern=_GAVE_UP_PATTERN, prompt=_PROMPT_PATTERN
        )

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        return transcript.parse(lines)


def make_kind(name: str, load_settings: Callable[[], Mapping[str, object]]) -> GeminiKind:
    """Return this kind under the name that the user's settings give it."""
    return GeminiKind(name, load_settings)


def _find_reset_time(evidence: Evidence, state: AgentState) -> str | None:
    """Return when a limit ends, from a text on the screen such as `Access resets at 5:04 PM UTC.`, or None."""
    screen_text = " ".join(line.strip("│ ") for line in (evidence.screen or "").splitlines())
    match = limit_resets.find_reset(_TIME_WITH_ZONE.sub(r"\1 (\2)", screen_text))
    return None if match is None else limit_resets.parse_reset(match, state.since, evidence.now)


def _choose_auth_type() -> str:
    """Return the login method that Gemini CLI would offer to a user who has not chosen one."""
    if os.environ.get("GOOGLE_GENAI_USE_VERTEXAI") == "true":
        return "vertex-ai"
    return "oauth-personal" if os.path.isfile(os.path.join(_get_user_dir(), _LOGIN_FILES[0])) else "gemini-api-key"


def _get_user_dir() -> str:
    return os.path.join(os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~"), ".gemini")


def _read_user_json(name: str) -> JsonObject:
    return read_user_json(os.path.join(_get_user_dir(), name))


def _read_session_id(path: str) -> str:
    if not os.path.basename(path).startswith("session-"):
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return str(parse_json(file.readline()).get("sessionId"))
    except (OSError, ValueError, AttributeError):
        return ""
