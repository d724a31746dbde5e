"""Kind `codex`: Codex in its terminal, with a home of its own."""

from __future__ import annotations

import json
import os
import re

from mngr.base.errors import MngrError, NotFound
from mngr.base.model import State
from mngr.host import scripts
from mngr.kinds import screens
from mngr.kinds.codex import transcript
from mngr.kinds.coding_agent import HOOK, ProgramKind, hook, places
from mngr.kinds.program_files import carry, find_conversation, make_dirs, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mngr.base.model import AgentRecord, Evidence
    from mngr.host.protocol import Host
    from mngr.kinds.delivery import Delivery

_CONFIG = "codex"  # CODEX_HOME, in the agent's directory
_RUN = "codex.sh"
_HOOK = "codex_hook.sh"
_HOOKS = {
    "UserPromptSubmit": ("message", "RUNNING", ""),
    "PreToolUse": ("tool_start", "RUNNING", ""),
    "PostToolUse": ("tool_end", "RUNNING", ""),
    "PermissionRequest": ("permission", "WAITING", "permission"),
    "SubagentStop": ("helper", "-", ""),
    "Stop": ("turn_end", "WAITING", "end_of_turn"),
}
_TITLE = ["activity", "run-state", "thread-id"]  # what the title of its terminal says, by which we know more
_PICTURE = re.compile(r"\S+\.(png|jpe?g|gif|webp|bmp)", re.IGNORECASE)
_ASKS, _THINKS, _IDLE = "Action Required", "Thinking", "Ready"
_CARRIED = ("model", "model_provider", "model_providers", "openai_base_url", "model_reasoning_effort")
_LEFT = ("projects", "notice", "hooks", "notify", "tui", "mcp_servers")  # of his settings: what is about him
_FILES = {"memory": "AGENTS.md", "prompts": "prompts", "skills": "skills", "rules": "rules"}
_LATEST = """
cd "$1" 2>/dev/null || exit 0
set -- own/rollout-*.jsonl
[ -e "$1" ] || set -- sessions/*/*/*/rollout-*.jsonl # one that was begun outside
[ -e "$1" ] || exit 0
file=$(ls -t "$@" | head -n 1)
file=${file%.jsonl}
printf %s "$file" | tail -c 36
"""
# For which models it would ask whether to take a newer one; Enter would say yes. In a home that is nobody's.
_NEWER = """
. "$1/env"
place=$(mktemp -d) || exit 0
CODEX_HOME=$place "$2" debug models 2>/dev/null | grep -o -e '"slug":"[^"]*"' -e '"upgrade":{"model":"[^"]*"'
rm -rf "$place"
"""
# Which hooks there are beside ours, if the project could have some; questions on standard input. 3 when it does not say.
_ASK = """
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
said=$(mktemp) || exit 3
tries=0
{
    cat
    until grep -q '^{"id":2,' "$said" || [ $tries -ge 100 ]; do
        tries=$((tries + 1))
        sleep 0.1 2>/dev/null || sleep 1
    done
} | "$2" app-server >"$said" 2>/dev/null
grep '^{"id":2,' "$said" || tries=
rm -f "$said"
[ -n "$tries" ] || exit 3
"""


class CodexKind(ProgramKind):
    """Codex. Its state comes from its hooks, its own record of the conversation, and the title of its terminal."""

    parent = "codex"
    summary = "Codex"
    program = "codex"
    install = "npm install -g @openai/codex"
    answers = {"allow": "y", "deny": "Escape"}
    features = ("hooks", "permissions", "tools", "resume", "usage", "limits")
    passes = ("OPENAI_API_KEY", "CODEX_API_KEY")
    unattended = ("--dangerously-bypass-approvals-and-sandbox",)
    pasted = ("[Pasted Content ",)
    asking = "› 1. Yes"
    clear = "C-u"
    empty = "› Ask Codex to do anything"
    obeyed = "/!"
    conversation = (f"{_CONFIG}/own/*.jsonl",)
    writes = (_CONFIG, "witness", "tmp")
    renewal = ("refresh_token", "")

    def given(self) -> dict[str, str]:
        """Also the variables that the user's own providers of models go by."""
        names = [
            str(provider["env_key"])
            for provider in _table(_of_user(), "model_providers").values()
            if isinstance(provider, dict) and provider.get("env_key")
        ]
        own = {name: os.environ[name] for name in names if os.environ.get(name)}
        return {**own, **super().given()}

    def addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        user = _of_user()
        provider = _table(_table(user, "model_providers"), str(user.get("model_provider")))
        if provider:
            return places([str(provider.get("base_url") or "")])
        url = (
            user.get("openai_base_url")
            or variables.get("OPENAI_BASE_URL")
            or os.environ.get("OPENAI_BASE_URL")
        )
        return places([str(url)] if url else ["https://api.openai.com", "https://chatgpt.com"])

    def variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        directory = host.home.agent(record.id)
        own = {"CODEX_HOME": os.path.join(directory, _CONFIG)}
        if directory.startswith("/tmp/"):  # it trusts nothing that lies where temporary files do
            own["TMPDIR"] = os.path.join(directory, "tmp")
        return own

    def prepare(self, host: Host, record: AgentRecord) -> None:
        super().prepare(host, record)
        make_dirs(host, record, *self.writes)
        carried = self.options.get("carry") or []
        hooks = {
            event: [
                {"hooks": [{"type": "command", "command": hook(*words).replace(HOOK, _HOOK), "timeout": 10}]}
            ]
            for event, words in _HOOKS.items()
        }
        write(host, record, _HOOK, scripts.program_beside(__file__, _HOOK).encode())
        write(host, record, _RUN, scripts.program_beside(__file__, _RUN).encode())
        write(host, record, f"{_CONFIG}/hooks.json", json.dumps({"hooks": hooks}, indent=1).encode())
        write(host, record, f"{_CONFIG}/config.toml", self._settings(host, record, carried))
        for word in carried:
            if word in _FILES:
                carry(host, record, os.path.join(_user(), _FILES[word]), os.path.join(_CONFIG, _FILES[word]))
        self.log_in(host, record)
        self.adopt(host, record, _CONFIG, _user())

    def _settings(self, host: Host, record: AgentRecord, carried: list[str]) -> bytes:
        """What the program noted itself, what is the user's, and what passes every dialog."""
        import tomlkit

        user = _of_user()
        taken = {key: user[key] for key in _CARRIED if key in user}
        if "settings" in carried:
            taken = {key: value for key, value in user.items() if key not in _LEFT}
        if "mcp" in carried and "mcp_servers" in user:
            taken["mcp_servers"] = user["mcp_servers"]
        if os.environ.get("OPENAI_BASE_URL"):
            taken.setdefault(
                "openai_base_url", os.environ["OPENAI_BASE_URL"]
            )  # it no longer reads the variable
        own = _read(host, os.path.join(host.home.agent(record.id), _CONFIG, "config.toml"))
        newer = _table(_table(user, "notice"), "model_migrations")
        words = " ".join(self.words(host, record))
        if str(taken.get("model") or "") not in {*newer, ""} or " -m" in words or "model" in words:
            newer = {**newer, **self._newer(host, record)}
        found = {
            "sandbox_mode": "workspace-write",  # not as words, for the program takes none twice
            "approval_policy": "on-request",
            **taken,
            **own,
            "check_for_update_on_startup": False,
            "features": {**_table(taken, "features"), "plugins": False, "daemon_auto_start": False},
            "analytics": {"enabled": False},
            "projects": {record.work_dir: {"trust_level": "trusted"}},
            "notice": {**_table(own, "notice"), "model_migrations": newer},
            "tui": {**_table(own, "tui"), "terminal_title": _TITLE},
        }
        return tomlkit.dumps(found).encode()

    def _newer(self, host: Host, record: AgentRecord) -> dict[str, str]:
        """For every model that has a newer one: which, as the program notes that the user was told."""
        directory = host.home.agent(record.id)
        said = host.run(["sh", "-c", _NEWER, "newer", directory, self.executable_on(host)]).text
        found: dict[str, str] = {}
        slug = ""
        for line in said.splitlines():
            key, _, name = line.rpartition(":")
            if key == '"slug"':
                slug = name.strip('"')
            else:
                found[slug] = name.strip('"')
        return found

    def logins(self) -> dict[str, str]:
        return {os.path.join(_user(), "auth.json"): f"{_CONFIG}/auth.json"}

    def log_in(self, host: Host, record: AgentRecord) -> None:
        super().log_in(host, record)
        key = os.environ.get("OPENAI_API_KEY")
        if key and self.options.get("login") != "none" and not any(map(os.path.isfile, self.logins())):
            write(host, record, f"{_CONFIG}/auth.json", json.dumps({"OPENAI_API_KEY": key}).encode())

    def find_outside(self, name: str) -> str:
        return find_conversation("Codex", os.path.join(_user(), "sessions"), name, _session_of)

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        directory = host.home.agent(record.id)
        found = host.run(["sh", "-c", _LATEST, "latest", os.path.join(directory, _CONFIG)]).text.strip()
        self._mute(host, record)
        program, *words = self.words(host, record)
        # What is left are our own hooks, in the agent's directory.
        words = ["--dangerously-bypass-hook-trust", *words, "--cd", record.work_dir]
        again = ["resume", found] if found else []
        return ["sh", os.path.join(directory, _RUN), program, *again, *words]

    def _mute(self, host: Host, record: AgentRecord) -> None:
        """Switch off the project's own hooks: nobody has reviewed them, and they would run outside Codex's sandbox."""
        if record.sandbox:
            return
        directory = host.home.agent(record.id)
        asked = host.run(
            ["sh", "-c", _ASK, "ask", directory, self.executable_on(host)], stdin=_questions(record)
        )
        keys = [] if asked.code == 0 and not asked.out else transcript.hooks_of(asked.out)
        if keys is None:
            raise MngrError(
                f"Codex does not say which hooks {record.work_dir}/.codex has, so it cannot be told to leave them",
                "try it there: codex; or remove them",
            )
        if keys:
            import tomlkit

            own = _read(host, os.path.join(directory, _CONFIG, "config.toml"))
            known = _table(_table(own, "hooks"), "state")
            own["hooks"] = {"state": {**known, **{key: {"enabled": False} for key in keys}}}
            write(host, record, f"{_CONFIG}/config.toml", tomlkit.dumps(own).encode())

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        """With a space at the end, which it cuts off: behind an @ or a $ Enter would choose from a list of names."""
        if _PICTURE.fullmatch(text.strip()):
            raise MngrError("Codex would take the picture of that name for the message", "write a sentence")
        found = super().delivery(record, text)
        return found.replace(text=f"{text.rstrip()} ")

    def judge(self, evidence: Evidence, state: State) -> State:
        end = transcript.end_of(evidence.witness)
        if end is not None and end.at >= (state.since or ""):
            if end.reason is None:
                return State(state="WAITING", reason="end_of_turn", source="transcript", since=end.at)
            return State(
                state="PARKED", reason=end.reason, source="transcript", since=end.at, parked_until=end.until
            )
        asks = _ASKS in _title(evidence)
        if state.state == "WAITING" and state.reason == "permission" and not asks:
            if _title(evidence).startswith(_IDLE):  # a sub-agent's, when the turn was over
                return state.replace(reason="end_of_turn", source="screen")
            return state.replace(state="RUNNING", reason=None, source="screen")  # answered, or not yet shown
        if state.state == "RUNNING" and asks:
            return state.replace(state="WAITING", reason="question", source="screen")
        if state.state == "RUNNING" and evidence.screen is not None:
            shown = screens.read(self.parent, evidence.screen)
            if shown is not None:
                return state.replace(state=shown[0], reason=shown[1], source="screen")
        return state

    def own_words(self, evidence: Evidence) -> tuple[str, str | None] | None:
        end = transcript.end_of(evidence.witness)
        if end is None:
            return None
        return f"its record says that a turn ended: {end.why}", end.at

    def wants_screen(self, evidence: Evidence, state: State) -> bool:
        # It tells nobody that it tries again, but then says that it thinks.
        return state.state == "RUNNING" and _THINKS in _title(evidence)

    def parse(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        return transcript.parse(lines)


def make(name: str, options: Any) -> CodexKind:
    """The kind under a name of the user's."""
    return CodexKind(name, options)


def _questions(record: AgentRecord) -> bytes:
    rows = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "mngr", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [record.work_dir]}},
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def _title(evidence: Evidence) -> str:
    return (evidence.pane or {}).get("title", "")


def _session_of(path: str) -> str:
    name = os.path.basename(path)
    return name[-42:-6] if name.startswith("rollout-") else ""


def _user() -> str:
    return os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")


def _of_user() -> dict[str, Any]:
    """The user's own settings; MngrError when they cannot be read."""
    import tomllib

    path = os.path.join(_user(), "config.toml")
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise MngrError(
            f"cannot read {path}: {error}", "mend it; Codex itself would not start with it"
        ) from None


def _read(host: Host, path: str) -> dict[str, Any]:
    """The agent's own settings, which it can make anything of."""
    import tomllib

    try:
        return tomllib.loads(host.read(path).decode())
    except (NotFound, ValueError, RecursionError):
        return {}


def _table(found: dict[str, Any], name: str) -> dict[str, Any]:
    table = found.get(name)
    return table if isinstance(table, dict) else {}
