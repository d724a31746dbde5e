"""Kind `claude`: Claude Code in its terminal, with its own configuration directory."""

from __future__ import annotations

import json
import os

from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.base.model import AgentState
from mngr.base.untrusted_json import as_object, get_object
from mngr.kinds import state_from_screen
from mngr.kinds.agent_files import copy_to_agent, get_conversation, read_json, read_user_json, write_file
from mngr.kinds.claude import transcript
from mngr.kinds.coding_agent import (
    CodingAgentKind,
    build_hook_command,
    format_milliseconds,
    park_if_limited,
    read_version,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mngr.base.model import AgentRecord, Evidence
    from mngr.base.untrusted_json import JsonObject
    from mngr.host.protocol import Host
    from mngr.kinds.transcript_entry import TranscriptEntry

_CONFIG_DIR = "claude"  # CLAUDE_CONFIG_DIR, in the agent's directory
# A version that does not know an event ignores the whole file, so each event has the first version that knows it.
_HOOKS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("SessionStart", build_hook_command("ready", "WAITING", "end_of_turn"), (1, 0, 62)),
    ("UserPromptSubmit", build_hook_command("message", "RUNNING"), (1, 0, 54)),
    ("PreToolUse", build_hook_command("tool_start", "RUNNING"), (1, 0, 38)),
    ("PostToolUse", build_hook_command("tool_end", "RUNNING"), (1, 0, 38)),
    ("Notification", build_hook_command("notification", "-"), (1, 0, 38)),
    ("Stop", build_hook_command("turn_end", "WAITING", "end_of_turn"), (1, 0, 38)),
    ("PermissionRequest", build_hook_command("permission", "WAITING", "permission"), (2, 1, 90)),
    ("StopFailure", build_hook_command("turn_failed", "WAITING", "end_of_turn"), (2, 1, 90)),
)
_CLOSE, _SETTLES = (
    0.5,
    0.3,
)  # seconds: a message this close to the end of a turn may begin the next; then Claude must stay idle this long
_MIN_IDLE_SECONDS = 0.7  # seconds of idleness that mean an interrupted turn when no hook has reported its end
_WAIT_REASONS = {"permission prompt": "permission"}
_CARRIED_FILES = {
    "memory": ("CLAUDE.md",),
    "commands": ("commands",),
    "agents": ("agents",),
    "skills": ("skills",),
}
# Claude stores conversations under a name derived from the work dir, which may have changed since.
_MOVE_SCRIPT = """
cd "$1" 2>/dev/null || exit 0
mkdir -p "./$2"
for file in ./*/*.jsonl; do
    [ -f "$file" ] || continue
    case $file in "./$2"/*) continue ;; esac
    mv -f "$file" "./$2/"
    [ ! -d "${file%.jsonl}" ] || mv -f "${file%.jsonl}" "./$2/"
done
ls -t "./$2" | sed -n 's/\\.jsonl$//p' | head -n 1
"""


class ClaudeKind(CodingAgentKind):
    """Claude Code. Its state comes from its hooks and from the file in which it says whether it is busy."""

    parent = "claude"
    summary = "Claude Code"
    program = "claude"
    install = "npm install -g @anthropic-ai/claude-code"
    answer_keys = {"allow": "1", "deny": "Escape"}
    user_variables = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_MODEL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
    )
    model_url_variables = {"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}
    yolo_arguments = ("--dangerously-skip-permissions",)
    ask_arguments = ("--permission-mode", "default")  # newer versions call it manual, but still accept this
    paste_patterns = ("[Pasted text #",)
    ready = "status program-status/[0-9]*.json"  # in some versions the first hook runs before the input box exists
    asking = "❯ 1. Yes"
    clear = "C-u C-e"
    empty = "❯\n❯\u00a0"
    obeyed = "/!#"
    transcript_paths = (f"{_CONFIG_DIR}/projects/*/*.jsonl", f"{_CONFIG_DIR}/projects/*/*/subagents/*.jsonl")
    written_names = (f"{_CONFIG_DIR}/", "program-status/")
    renewal_key = ("refreshToken", None)

    def list_login_files(self) -> dict[str, str]:
        return {os.path.join(_get_user_dir(), ".credentials.json"): f"{_CONFIG_DIR}/.credentials.json"}

    def get_user_conversation(self, name: str) -> str:
        projects_dir = os.path.join(_get_user_dir(), "projects")
        return get_conversation("Claude Code", projects_dir, name, lambda path: os.path.basename(path)[:-6])

    def build_variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        variables = {
            "CLAUDE_CONFIG_DIR": os.path.join(host.home.agent_dir(record.id), _CONFIG_DIR),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
        }
        if record.options.get("yolo"):
            variables["IS_SANDBOX"] = "1"  # otherwise it refuses --dangerously-skip-permissions for root
        return variables

    def prepare(self, host: Host, record: AgentRecord) -> None:
        super().prepare(host, record)
        directory = host.home.agent_dir(record.id)
        result = host.run(["sh", "-c", _MAKE_DIRS_SCRIPT, "make", directory, _CONFIG_DIR])
        if result.code:
            raise MngrError(
                f"cannot create the directory of {record.name}: {result.error_line}",
                f"check the host: mngr doctor @{host.name}",
            )
        version = read_version(host, record, self.resolve_executable(host))
        carried = self.settings.carry
        config = read_json(host, record, f"{_CONFIG_DIR}/.claude.json")
        projects = get_object(config, "projects")
        trust = {
            **get_object(projects, record.work_dir),
            "hasTrustDialogAccepted": True,
            "hasCompletedProjectOnboarding": True,
        }
        config.update(
            hasCompletedOnboarding=True,
            hasSeenAutoDefaultNudge=True,
            projects={**projects, record.work_dir: trust},
        )
        settings = read_json(host, record, f"{_CONFIG_DIR}/settings.json")
        if "settings" in carried:
            settings = {**_read_user_json("settings.json"), **settings}
        if "mcp" in carried:
            config["mcpServers"] = {
                **get_object(_read_user_json(".claude.json"), "mcpServers"),
                **get_object(config, "mcpServers"),
            }
        if result.text:  # The end of the API key; without it Claude asks whether to use the key.
            config["customApiKeyResponses"] = {"approved": [result.text], "rejected": []}
        settings.update(skipDangerousModePermissionPrompt=True, hooks=_build_hooks(settings.get("hooks"), version))
        write_file(host, record, f"{_CONFIG_DIR}/.claude.json", json.dumps(config).encode())
        write_file(host, record, f"{_CONFIG_DIR}/settings.json", json.dumps(settings, indent=1).encode())
        self._copy_user_files(host, record, carried)
        self.install_login(host, record)
        self.adopt_conversation(host, record, f"{_CONFIG_DIR}/projects/{_slugify_path(record.work_dir)}")

    def _copy_user_files(self, host: Host, record: AgentRecord, carried: list[str]) -> None:
        for topic in carried:
            for name in _CARRIED_FILES.get(topic, ()):
                copy_to_agent(host, record, os.path.join(_get_user_dir(), name), os.path.join(_CONFIG_DIR, name))

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        projects = os.path.join(host.home.agent_dir(record.id), _CONFIG_DIR, "projects")
        session_id = host.run(["sh", "-c", _MOVE_SCRIPT, "move", projects, _slugify_path(record.work_dir)]).text.strip()
        if any(argument in ("-r", "--resume", "-c", "--continue", "--session-id") for argument in record.command):
            return self.build_base_command(host, record)
        if not session_id:
            return [*self.build_base_command(host, record), "--session-id", derive_session_id(record.id)]
        return [*self.build_base_command(host, record), "--resume", session_id]

    def refine_state(self, evidence: Evidence, state: AgentState) -> AgentState:
        state = self._choose_latest_state(evidence, state)
        if state.state == "RUNNING" and evidence.screen is not None:
            screen_state = state_from_screen.find_state(self.parent, evidence.screen)
            if screen_state is not None:
                return state.replace(state=screen_state[0], reason=screen_state[1], source="screen")
        return state

    def _choose_latest_state(self, evidence: Evidence, state: AgentState) -> AgentState:
        """Return the state from the last hook or from Claude's own status file, whichever is newer."""
        own_status = evidence.program_status or {}
        since = format_milliseconds(own_status.get("statusUpdatedAt"))
        activity = own_status.get("status")
        if since is not None and self._can_continue(evidence, state, since, activity):
            return state.replace(state="RUNNING", reason="settling")
        if since is None or (state.state != "STARTING" and (state.since or "") >= since):
            return park_if_limited(evidence, state)
        if activity == "waiting" and (parked := park_if_limited(evidence, state)).state == "PARKED":
            return parked  # some versions ask what to do about the limit
        if activity == "waiting":
            reason = _WAIT_REASONS.get(str(own_status.get("waitingFor")), "question")
            if state.state == "WAITING" and state.reason in (reason, "question"):
                # The hook is more precise than the status file of 2.1.197, and a new question has its own hook.
                return state
            return AgentState(state="WAITING", reason=reason, source="program", since=since)
        if activity in ("busy", "shell"):
            running_reason = "background" if activity == "shell" else None
            return AgentState(state="RUNNING", reason=running_reason, source="program", since=since)
        if activity != "idle" or state.state == "STARTING":
            return state
        if (
            state.state == "RUNNING"
            and (evidence.host_time or evidence.now) - time_format.parse_timestamp(since) < _MIN_IDLE_SECONDS
        ):
            return state  # Claude is idle for a moment between two turns.
        if state.state == "WAITING" and state.reason == "end_of_turn":
            return park_if_limited(evidence, state)  # keeps the time when the turn ended
        return AgentState(state="WAITING", reason="end_of_turn", source="program", since=since)

    def _can_continue(self, evidence: Evidence, state: AgentState, since: str, activity: object) -> bool:
        """True when a message came just before the turn ended, so that the next turn may begin by itself.

        Claude does not report at once whether it does.
        """
        message_time = (evidence.hook_status or {}).get("message_at")
        if (state.state, state.reason) != ("WAITING", "end_of_turn") or not isinstance(message_time, str):
            return False
        try:
            ended = time_format.parse_timestamp(state.since or "")
            message_at = time_format.parse_timestamp(message_time)
        except ValueError:
            return False
        if ended - message_at > _CLOSE:
            return False
        is_idle = activity == "idle" and time_format.parse_timestamp(since) >= message_at
        idle_seconds = (evidence.host_time or evidence.now) - max(ended, time_format.parse_timestamp(since))
        return not (is_idle and idle_seconds >= _SETTLES) and idle_seconds < 5.0

    def is_screen_needed(self, evidence: Evidence, state: AgentState) -> bool:
        # Only the screen shows that Claude is retrying.
        return (
            state.state == "RUNNING"
            and (evidence.host_time or evidence.now)
            - time_format.parse_timestamp(state.since or time_format.format_timestamp())
            > 1.0
        )

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        return transcript.parse(lines)


def make_kind(name: str, load_settings: Callable[[], Mapping[str, object]]) -> ClaudeKind:
    """Return this kind under the name that the user's settings give it."""
    return ClaudeKind(name, load_settings)


# Claude writes its status files into `sessions`, which this script links to the agent's `program-status` directory.
_MAKE_DIRS_SCRIPT = """
cd "$1" && mkdir -p "$2" program-status && { [ -e "$2/sessions" ] || ln -s ../program-status "$2/sessions"; } && rm -f program-status/*.json || exit
. ./env
printf %s "${ANTHROPIC_API_KEY-}" | tail -c 20
"""


def derive_session_id(agent_id: str) -> str:
    """Return the id of an agent's first conversation, as the UUID that Claude requires."""
    digits = agent_id.removeprefix("a-").rjust(12, "0")[:12]
    return f"{digits[:8]}-{digits[8:]}-4000-8000-{digits}"


def _slugify_path(path: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in path)


def _build_hooks(user_hooks: object, version: tuple[int, ...]) -> dict[str, list[object]]:
    """Return mngr's hooks that this version knows, together with the hooks from the user's settings."""
    hooks = {event: list(entries) for event, entries in as_object(user_hooks).items() if isinstance(entries, list)}
    for event, line, first_version in _HOOKS:
        if version and version < first_version:
            continue
        entry: JsonObject = {"hooks": [{"type": "command", "command": line, "timeout": 10}]}
        if event == "SessionStart":
            entry["matcher"] = "startup|resume|clear"  # not in the middle of a turn
        other_entries = [row for row in hooks.get(event, []) if "hook.sh" not in json.dumps(row)]
        hooks[event] = [*other_entries, entry]
    return hooks


def _get_user_dir() -> str:
    return os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")


def _read_user_json(name: str) -> JsonObject:
    """Return a JSON file of the user's configuration; .claude.json is in the home unless CLAUDE_CONFIG_DIR is set."""
    if name == ".claude.json" and not os.environ.get("CLAUDE_CONFIG_DIR"):
        return read_user_json(os.path.expanduser("~/.claude.json"))
    return read_user_json(os.path.join(_get_user_dir(), name))
