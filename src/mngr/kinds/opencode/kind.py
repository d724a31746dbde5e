"""Kind `opencode`: opencode in its terminal, with its own directories and with mngr's plugin."""

from __future__ import annotations

import json
import os

from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.untrusted_json import as_list, parse_json
from mngr.host import scripts
from mngr.kinds.agent_files import copy_to_agent, make_dirs, write_file
from mngr.kinds.coding_agent import CodingAgentKind, encode_message_marker, parse_addresses
from mngr.kinds.delivery_plan import Delivery
from mngr.kinds.opencode import user_config as user
from mngr.kinds.transcript_entry import parse_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mngr.base.model import AgentRecord
    from mngr.base.untrusted_json import JsonObject
    from mngr.host.protocol import Host
    from mngr.kinds.transcript_entry import TranscriptEntry

_STATE_DIR = "opencode"  # in the agent's directory: holds opencode's XDG directories
_CONFIG_DIR = f"{_STATE_DIR}/config/opencode"
_DATA_DIR = f"{_STATE_DIR}/data/opencode"
_PLUGIN_FILE = "opencode.js"
_INBOX_DIR = "inbox"  # where the plugin reads messages
_XDG_DIRS = {"CONFIG": "config", "DATA": "data", "STATE": "state", "CACHE": "cache"}
_ASK_RULES = dict.fromkeys(("edit", "bash", "webfetch", "websearch"), "ask")
# Allows everything. Nobody else writes the pattern like this, so the rule comes last and overrides all others.
_ALLOW_ALL = {"**": "allow"}
_CARRIED_FILES = {
    "memory": ("AGENTS.md",),
    "commands": ("command", "commands"),
    "agents": ("agent", "agents"),
    "skills": ("skill", "skills"),
    "plugins": ("plugin", "plugins"),
}
# Makes opencode believe that its plugin packages are installed. mngr's plugin needs none, and installing them is slow.
_PACKAGES = {"dependencies": {"@opencode-ai/plugin": "*"}}
_IMPORT_SCRIPT = '. "$1/env" && cd "$MNGR_WORK_DIR" && shift && exec "$@" </dev/null'


class OpencodeKind(CodingAgentKind):
    """opencode. mngr's plugin reports its state, keeps the conversation and delivers messages through its API."""

    parent = "opencode"
    summary = "opencode"
    program = "opencode"
    answer_keys = {"allow": "allow", "deny": "deny"}
    user_variables = tuple(name for _, names in user.PROVIDERS.values() for name in names)
    transcript_paths = ("transcript.jsonl",)
    written_names = (f"{_STATE_DIR}/", f"{_INBOX_DIR}/")
    renewal_key = ("refresh", "")

    def get_user_variables(self) -> dict[str, str]:
        named = user.list_variables(self._read_carried_config())
        return {
            **{name: os.environ[name] for name in named if name in os.environ},
            **super().get_user_variables(),
        }

    def list_model_addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        logins = user.read_logins() if self.settings.has_login else {}
        return parse_addresses(user.list_model_urls(self._read_carried_config(), logins, variables))

    def build_variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        variables = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        if record.options.get("yolo"):
            variables["OPENCODE_PERMISSION"] = json.dumps(_ALLOW_ALL)
        models = os.path.join(user.get_user_dir("CACHE"), "models.json")
        if host.is_local and not record.sandbox and os.path.isfile(models):
            variables["OPENCODE_MODELS_PATH"] = models
        return variables

    def prepare(self, host: Host, record: AgentRecord) -> None:
        directory = host.home.agent_dir(record.id)
        make_dirs(host, record, f"{_CONFIG_DIR}/node_modules", _DATA_DIR, _INBOX_DIR)
        write_file(host, record, _PLUGIN_FILE, scripts.read_program_beside(__file__, "opencode.js").encode())
        config = self._read_carried_config()
        config.setdefault("permission", _ASK_RULES)
        config.update(autoupdate=False, share=config.get("share", "disabled"))
        config["plugin"] = [*as_list(config.get("plugin")), _build_file_url(os.path.join(directory, _PLUGIN_FILE))]
        write_file(host, record, f"{_CONFIG_DIR}/opencode.json", json.dumps(config, indent=1).encode())
        if "plugins" not in self.settings.carry:
            write_file(host, record, f"{_CONFIG_DIR}/package.json", json.dumps(_PACKAGES).encode())
            lock = {"packages": {"": _PACKAGES}}
            write_file(host, record, f"{_CONFIG_DIR}/package-lock.json", json.dumps(lock).encode())
        for topic in self.settings.carry:
            for name in _CARRIED_FILES.get(topic, ()):
                copy_to_agent(
                    host,
                    record,
                    os.path.join(user.get_user_dir("CONFIG"), name),
                    os.path.join(_CONFIG_DIR, name),
                )
        self.install_login(host, record)
        self._import_conversation(host, record)

    def get_user_conversation(self, name: str) -> str:
        from mngr.kinds.opencode import user_conversations

        return user_conversations.get_database(user.get_user_dir("DATA"), name)

    def _import_conversation(self, host: Host, record: AgentRecord) -> None:
        """Import the conversation that the user named when the agent is created."""
        name = record.options.get("resume")
        if not name or record.phase != "creating":
            return
        from mngr.kinds.opencode import user_conversations

        data = self._export_conversation(str(name))
        directory = host.home.agent_dir(record.id)
        file = os.path.join(directory, _STATE_DIR, "adopted.json")
        host.write(file, data)
        argv = [
            *self._build_xdg_words(host, record),
            "OPENCODE_PURE=1",
            self.resolve_executable(host),
            "import",
            file,
        ]
        result = host.run(["sh", "-c", _IMPORT_SCRIPT, "import", directory, *argv], timeout=60.0)
        host.run(["rm", "-f", file])
        if result.code:
            raise MngrError(
                f"opencode could not import the conversation {name}: {result.error_line}",
                "start a new conversation: leave out --resume",
            )
        entries = user_conversations.parse_export(parse_json(data))
        lines = (json.dumps(entry.to_dict(), ensure_ascii=False) + "\n" for entry in entries)
        write_file(host, record, "transcript.jsonl", "".join(lines).encode())
        write_file(host, record, f"{_STATE_DIR}/session", f"{name}\n{record.work_dir}\n".encode())

    def _export_conversation(self, name: str) -> bytes:
        import tempfile

        with tempfile.NamedTemporaryFile() as file:  # opencode loses what is still in a pipe when it ends
            argv = ["sh", "-c", 'exec "$@" >"$0"', file.name, self.executable, "export", name]
            result = shell.run(argv, timeout=60.0)
            data = file.read()
        try:
            parse_json(data)
        except ValueError:
            raise MngrError(
                f"opencode could not export the conversation {name}: {result.error_line}",
                f"see what opencode reports: opencode export {name}",
            ) from None
        return data

    def _build_xdg_words(self, host: Host, record: AgentRecord) -> list[str]:
        """Return an `env` command prefix that sets opencode's XDG directories.

        Only opencode gets these variables, so other programs in the agent's windows find their usual configuration.
        """
        directory = os.path.join(host.home.agent_dir(record.id), _STATE_DIR)
        return [
            "env",
            *(f"XDG_{name}_HOME={os.path.join(directory, subdirectory)}" for name, subdirectory in _XDG_DIRS.items()),
        ]

    def _read_carried_config(self) -> JsonObject:
        return user.read_config(self.settings.carry)

    def list_login_files(self) -> dict[str, str]:
        return {os.path.join(user.get_user_dir("DATA"), "auth.json"): f"{_DATA_DIR}/auth.json"}

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        argv = [*self._build_xdg_words(host, record), *self.build_base_command(host, record)]
        if any(argument.partition("=")[0] in ("-c", "--continue", "-s", "--session") for argument in record.command):
            return argv
        last = host.run(["cat", os.path.join(host.home.agent_dir(record.id), _STATE_DIR, "session")]).text
        session, _, session_dir = last.strip().partition("\n")
        # opencode resumes a conversation in the directory where it began. The plugin moves one from elsewhere to here.
        return [*argv, "--session", session] if session and session_dir == record.work_dir else argv

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        return Delivery(
            text=text,
            ready="status",
            proof="api",
            arrival_marker=encode_message_marker(text),
            blocking_reasons=self.blocking_reasons,
            inbox_dir=_INBOX_DIR,
        )

    def build_answer(self, key: str) -> Delivery:
        return Delivery(text=key, ready="status", proof="api", is_key=True, inbox_dir=_INBOX_DIR)

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        return parse_entries(lines)


def make_kind(name: str, load_settings: Callable[[], Mapping[str, object]]) -> OpencodeKind:
    """Return this kind under the name that the user's settings give it."""
    return OpencodeKind(name, load_settings)


def _build_file_url(path: str) -> str:
    from urllib.parse import quote

    return "file://" + quote(path)
