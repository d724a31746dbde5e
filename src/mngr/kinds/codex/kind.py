"""Kind `codex`: Codex in its terminal, with its own CODEX_HOME."""

from __future__ import annotations

import json
import os
import re

from mngr.base.errors import MngrError, NotFound, describe_file_error
from mngr.base.model import AgentState
from mngr.base.untrusted_json import as_objects, get_object, get_text
from mngr.host import scripts
from mngr.kinds import state_from_screen
from mngr.kinds.agent_files import copy_to_agent, get_conversation, make_dirs, write_file
from mngr.kinds.codex import transcript
from mngr.kinds.coding_agent import HOOK_FILE, CodingAgentKind, build_hook_command, parse_addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mngr.base.model import AgentRecord, Evidence
    from mngr.base.untrusted_json import JsonObject
    from mngr.host.protocol import Host
    from mngr.kinds.delivery_plan import Delivery
    from mngr.kinds.transcript_entry import TranscriptEntry

_CONFIG_DIR = "codex"  # CODEX_HOME, in the agent's directory
_WRAPPER_FILE = "codex.sh"
_HOOK_FILE = "codex_hook.sh"
_HOOKS = {
    "UserPromptSubmit": ("message", "RUNNING", ""),
    "PreToolUse": ("tool_start", "RUNNING", ""),
    "PostToolUse": ("tool_end", "RUNNING", ""),
    "PermissionRequest": ("permission", "WAITING", "permission"),
    "SubagentStop": ("helper", "-", ""),
    "Stop": ("turn_end", "WAITING", "end_of_turn"),
}
_TITLE_ITEMS = [
    "activity",
    "run-state",
    "thread-id",
]  # shown in the terminal's title, from which mngr refines the state
_IMAGE_PATH = re.compile(r"\S+\.(png|jpe?g|gif|webp|bmp)", re.IGNORECASE)
_ASKS, _THINKS, _IDLE = "Action Required", "Thinking", "Ready"
_CARRIED_SETTINGS = (
    "model",
    "model_provider",
    "model_providers",
    "openai_base_url",
    "model_reasoning_effort",
)
_EXCLUDED_SETTINGS = (
    "projects",
    "notice",
    "hooks",
    "notify",
    "tui",
    "mcp_servers",
)  # personal settings of the user that an agent does not get
_CARRIED_FILES = {"memory": "AGENTS.md", "prompts": "prompts", "skills": "skills", "rules": "rules"}
_FIND_LATEST_SCRIPT = """
cd "$1" 2>/dev/null || exit 0
set -- own/rollout-*.jsonl
[ -e "$1" ] || set -- sessions/*/*/*/rollout-*.jsonl # one that was begun outside
[ -e "$1" ] || exit 0
file=$(ls -t "$@" | head -n 1)
file=${file%.jsonl}
printf %s "$file" | tail -c 36
"""
# Lists the models for which Codex would ask whether to use a newer one; Enter would accept. Uses an empty CODEX_HOME.
_MODEL_UPGRADES_SCRIPT = """
. "$1/env"
place=$(mktemp -d) || exit 0
CODEX_HOME=$place "$2" debug models 2>/dev/null | grep -o -e '"slug":"[^"]*"' -e '"upgrade":{"model":"[^"]*"'
rm -rf "$place"
"""
# Lists the hooks if the project has a .codex directory. Queries come from stdin. Exits with 3 if there is no answer.
_ASK_SERVER_SCRIPT = """
. "$1/env"
cd "$MNGR_WORK_DIR" || exit 3
found=
for place in "$PWD" "$(cd "$(git rev-parse --git-common-dir 2>/dev/null || echo .)/.." && pwd)"; do
    while [ -n "$place" ]; do
        if [ -d "$place/.codex" ] && [ "$place" != "$HOME" ]; then found=1; fi
        place=${place%/*}
    done
done
[ -n "$found" ] || exit 0
answers=$(mktemp) || exit 3
tries=0
{
    cat
    until grep -q '^{"id":2,' "$answers" || [ $tries -ge 100 ]; do
        tries=$((tries + 1))
        sleep 0.1 2>/dev/null || sleep 1
    done
} | "$2" app-server >"$answers" 2>/dev/null
grep '^{"id":2,' "$answers" || tries=
rm -f "$answers"
[ -n "$tries" ] || exit 3
"""


class CodexKind(CodingAgentKind):
    """Codex. Its state comes from its hooks, its own record of the conversation, and the title of its terminal."""

    parent = "codex"
    summary = "Codex"
    program = "codex"
    install = "npm install -g @openai/codex"
    answer_keys = {"allow": "y", "deny": "Escape"}
    features = ("hooks", "permissions", "tools", "resume", "usage", "limits")
    user_variables = ("OPENAI_API_KEY", "CODEX_API_KEY")
    yolo_arguments = ("--dangerously-bypass-approvals-and-sandbox",)
    paste_patterns = ("[Pasted Content ",)
    asking = "› 1. Yes"
    clear = "C-u"
    empty = "› Ask Codex to do anything"
    obeyed = "/!"
    transcript_paths = (f"{_CONFIG_DIR}/own/*.jsonl",)
    written_names = (f"{_CONFIG_DIR}/", "program-status/", "tmp/")
    renewal_key = ("refresh_token", "")

    def get_user_variables(self) -> dict[str, str]:
        """Add the API key variables that the user's own model providers name."""
        providers = get_object(_read_user_settings(), "model_providers").values()
        names = [get_text(provider, "env_key") for provider in as_objects(list(providers))]
        provider_variables = {name: os.environ[name] for name in names if os.environ.get(name)}
        return {**provider_variables, **super().get_user_variables()}

    def list_model_addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        settings = _read_user_settings()
        provider = get_object(get_object(settings, "model_providers"), str(settings.get("model_provider")))
        if provider:
            return parse_addresses([str(provider.get("base_url") or "")])
        url = settings.get("openai_base_url") or variables.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_BASE_URL")
        return parse_addresses([str(url)] if url else ["https://api.openai.com", "https://chatgpt.com"])

    def build_variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        directory = host.home.agent_dir(record.id)
        variables = {"CODEX_HOME": os.path.join(directory, _CONFIG_DIR)}
        if directory.startswith("/tmp/"):  # Codex does not trust anything inside the temporary directory.
            variables["TMPDIR"] = os.path.join(directory, "tmp")
        return variables

    def prepare(self, host: Host, record: AgentRecord) -> None:
        super().prepare(host, record)
        make_dirs(host, record, *self.written_names)
        carried = self.settings.carry
        hooks = {
            event: [
                {
                    "hooks": [
                        {
                            "type": "command",
                            "command": build_hook_command(*arguments).replace(HOOK_FILE, _HOOK_FILE),
                            "timeout": 10,
                        }
                    ]
                }
            ]
            for event, arguments in _HOOKS.items()
        }
        write_file(host, record, _HOOK_FILE, scripts.read_program_beside(__file__, _HOOK_FILE).encode())
        write_file(host, record, _WRAPPER_FILE, scripts.read_program_beside(__file__, _WRAPPER_FILE).encode())
        write_file(host, record, f"{_CONFIG_DIR}/hooks.json", json.dumps({"hooks": hooks}, indent=1).encode())
        write_file(host, record, f"{_CONFIG_DIR}/config.toml", self._build_settings(host, record, carried))
        for topic in carried:
            if topic in _CARRIED_FILES:
                copy_to_agent(
                    host,
                    record,
                    os.path.join(_get_user_dir(), _CARRIED_FILES[topic]),
                    os.path.join(_CONFIG_DIR, _CARRIED_FILES[topic]),
                )
        self.install_login(host, record)
        self.adopt_conversation(host, record, _CONFIG_DIR, _get_user_dir())

    def _build_settings(self, host: Host, record: AgentRecord, carried: list[str]) -> bytes:
        """Return config.toml: the agent's own settings, the user's, and those that avoid every dialog."""
        import tomlkit

        user_settings = _read_user_settings()
        carried_settings = {key: user_settings[key] for key in _CARRIED_SETTINGS if key in user_settings}
        if "settings" in carried:
            carried_settings = {key: value for key, value in user_settings.items() if key not in _EXCLUDED_SETTINGS}
        if "mcp" in carried and "mcp_servers" in user_settings:
            carried_settings["mcp_servers"] = user_settings["mcp_servers"]
        if os.environ.get("OPENAI_BASE_URL"):
            carried_settings.setdefault(
                "openai_base_url", os.environ["OPENAI_BASE_URL"]
            )  # Codex no longer reads the variable.
        own_settings = _read_agent_settings(
            host, os.path.join(host.home.agent_dir(record.id), _CONFIG_DIR, "config.toml")
        )
        upgrades = get_object(get_object(user_settings, "notice"), "model_migrations")
        command_line = " ".join(self.build_base_command(host, record))
        if (
            str(carried_settings.get("model") or "") not in {*upgrades, ""}
            or " -m" in command_line
            or "model" in command_line
        ):
            upgrades = {**upgrades, **self._read_model_upgrades(host, record)}
        settings = {
            "sandbox_mode": "workspace-write",  # not as an argument, because Codex rejects one that is given twice
            "approval_policy": "on-request",
            **carried_settings,
            **own_settings,
            "check_for_update_on_startup": False,
            "features": {**get_object(carried_settings, "features"), "plugins": False, "daemon_auto_start": False},
            "analytics": {"enabled": False},
            "projects": {record.work_dir: {"trust_level": "trusted"}},
            "notice": {**get_object(own_settings, "notice"), "model_migrations": upgrades},
            "tui": {**get_object(own_settings, "tui"), "terminal_title": _TITLE_ITEMS},
        }
        return tomlkit.dumps(settings).encode()

    def _read_model_upgrades(self, host: Host, record: AgentRecord) -> dict[str, str]:
        """Return the newer model for each model that has one, in the format of `notice.model_migrations`."""
        directory = host.home.agent_dir(record.id)
        output = host.run(["sh", "-c", _MODEL_UPGRADES_SCRIPT, "newer", directory, self.resolve_executable(host)]).text
        upgrades: dict[str, str] = {}
        slug = ""
        for line in output.splitlines():
            key, _, name = line.rpartition(":")
            if key == '"slug"':
                slug = name.strip('"')
            else:
                upgrades[slug] = name.strip('"')
        return upgrades

    def list_login_files(self) -> dict[str, str]:
        return {os.path.join(_get_user_dir(), "auth.json"): f"{_CONFIG_DIR}/auth.json"}

    def install_login(self, host: Host, record: AgentRecord) -> None:
        super().install_login(host, record)
        key = os.environ.get("OPENAI_API_KEY")
        if key and self.settings.has_login and not any(map(os.path.isfile, self.list_login_files())):
            write_file(host, record, f"{_CONFIG_DIR}/auth.json", json.dumps({"OPENAI_API_KEY": key}).encode())

    def get_user_conversation(self, name: str) -> str:
        return get_conversation("Codex", os.path.join(_get_user_dir(), "sessions"), name, _parse_session_id)

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        directory = host.home.agent_dir(record.id)
        session_id = host.run(
            ["sh", "-c", _FIND_LATEST_SCRIPT, "latest", os.path.join(directory, _CONFIG_DIR)]
        ).text.strip()
        self._disable_project_hooks(host, record)
        program, *arguments = self.build_base_command(host, record)
        # Only mngr's own hooks, in the agent's directory, are still enabled.
        arguments = ["--dangerously-bypass-hook-trust", *arguments, "--cd", record.work_dir]
        resume_arguments = ["resume", session_id] if session_id else []
        return ["sh", os.path.join(directory, _WRAPPER_FILE), program, *resume_arguments, *arguments]

    def _disable_project_hooks(self, host: Host, record: AgentRecord) -> None:
        """Disable the project's own hooks: nobody has reviewed them, and they run outside Codex's sandbox."""
        if record.sandbox:
            return
        directory = host.home.agent_dir(record.id)
        result = host.run(
            ["sh", "-c", _ASK_SERVER_SCRIPT, "ask", directory, self.resolve_executable(host)],
            stdin=_build_hook_queries(record),
        )
        keys = [] if result.code == 0 and not result.out else transcript.parse_hook_keys(result.out)
        if keys is None:
            raise MngrError(
                f"Codex did not list the hooks in {record.work_dir}/.codex, so mngr cannot turn them off",
                "see whether Codex starts in the project: codex; or remove the hooks from .codex",
            )
        if keys:
            import tomlkit

            settings = _read_agent_settings(host, os.path.join(directory, _CONFIG_DIR, "config.toml"))
            hook_states = get_object(get_object(settings, "hooks"), "state")
            settings["hooks"] = {"state": {**hook_states, **{key: {"enabled": False} for key in keys}}}
            write_file(host, record, f"{_CONFIG_DIR}/config.toml", tomlkit.dumps(settings).encode())

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        """Return the delivery with a space at the end, which Codex cuts off.

        Without the space, Enter after a word with @ or $ would choose from a list of names.
        """
        if _IMAGE_PATH.fullmatch(text.strip()):
            raise MngrError(
                f"Codex reads the message {text.strip()!r} as the path of an image and attaches the image",
                "add words to the message, for example: describe IMAGE",
            )
        delivery = super().delivery(record, text)
        return delivery.replace(text=f"{text.rstrip()} ")

    def refine_state(self, evidence: Evidence, state: AgentState) -> AgentState:
        end = transcript.find_failed_turn(evidence.program_status)
        if end is not None and end.at >= (state.since or ""):
            if end.reason is None:
                return AgentState(state="WAITING", reason="end_of_turn", source="transcript", since=end.at)
            return AgentState(
                state="PARKED", reason=end.reason, source="transcript", since=end.at, parked_until=end.until
            )
        is_asking = _ASKS in _read_title(evidence)
        if state.state == "WAITING" and state.reason == "permission" and not is_asking:
            if _read_title(evidence).startswith(_IDLE):  # a sub-agent's permission, after the turn ended
                return state.replace(reason="end_of_turn", source="screen")
            return state.replace(state="RUNNING", reason=None, source="screen")  # answered, or not yet shown
        if state.state == "RUNNING" and is_asking:
            return state.replace(state="WAITING", reason="question", source="screen")
        if state.state == "RUNNING" and evidence.screen is not None:
            screen_state = state_from_screen.find_state(self.parent, evidence.screen)
            if screen_state is not None:
                return state.replace(state=screen_state[0], reason=screen_state[1], source="screen")
        return state

    def read_own_status(self, evidence: Evidence) -> tuple[str, str | None] | None:
        end = transcript.find_failed_turn(evidence.program_status)
        if end is None:
            return None
        return f"its record says that a turn ended: {end.message}", end.at

    def is_screen_needed(self, evidence: Evidence, state: AgentState) -> bool:
        # Only the screen shows that Codex is retrying; the title says that it thinks.
        return state.state == "RUNNING" and _THINKS in _read_title(evidence)

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        return transcript.parse(lines)


def make_kind(name: str, load_settings: Callable[[], Mapping[str, object]]) -> CodexKind:
    """Return this kind under the name that the user's settings give it."""
    return CodexKind(name, load_settings)


def _build_hook_queries(record: AgentRecord) -> bytes:
    rows = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "mngr", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [record.work_dir]}},
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def _read_title(evidence: Evidence) -> str:
    return (evidence.pane or {}).get("title", "")


def _parse_session_id(path: str) -> str:
    name = os.path.basename(path)
    return name[-42:-6] if name.startswith("rollout-") else ""


def _get_user_dir() -> str:
    return os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")


def _read_user_settings() -> JsonObject:
    """Return the user's own settings; raise MngrError if the file cannot be read."""
    import tomllib

    path = os.path.join(_get_user_dir(), "config.toml")
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise MngrError(
            f"cannot read {path}: {describe_file_error(error)}",
            "correct the file: Codex itself cannot start with it either",
        ) from None


def _read_agent_settings(host: Host, path: str) -> JsonObject:
    """Return the agent's own settings, or {} when they are missing or invalid: the agent can write anything there."""
    import tomllib

    try:
        return tomllib.loads(host.read(path).decode())
    except (NotFound, ValueError, RecursionError):
        return {}
