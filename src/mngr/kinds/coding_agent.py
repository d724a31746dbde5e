"""Holds what all coding agents share: a program with its own directory, hooks and conversation."""

from __future__ import annotations

import os

from mngr.base import shell, time_format
from mngr.base.errors import UsageError
from mngr.base.model import AgentState, Struct
from mngr.base.untrusted_json import as_list
from mngr.host import scripts
from mngr.kinds.agent_files import can_renew, copy_login, copy_to_agent, read_json, write_file
from mngr.kinds.agent_state import derive_state
from mngr.kinds.delivery_plan import Delivery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mngr.base.model import AgentRecord, Evidence
    from mngr.host.protocol import Host
    from mngr.kinds.protocol import KindOptions
    from mngr.kinds.transcript_entry import TranscriptEntry

HOOK_FILE = "hook.sh"
_MARKER_LENGTH = 400  # characters of a message to look for in a hook's JSON; only one sender is active at a time
_TAIL_LENGTH = 20  # characters: enough to recognize the end of a text, and short enough for one line of any screen
LOGIN_MODES = ("shared", "none")
_LIVE_STATES = ("STARTING", "RUNNING", "WAITING", "PARKED")
FEATURES = ("hooks", "permissions", "questions", "tools", "resume", "usage", "cost", "limits")


class KindSettings(Struct):
    """The settings of `[agents.NAME]`."""

    program: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    carry: list[str] = []  # the parts of the user's own configuration that agents get
    has_login: bool = True  # agents get the user's login


class CodingAgentKind:
    """The common part of all coding agents. `[agents.NAME]` in the settings defines more kinds, derived by `parent`."""

    parent = ""  # the built-in kind, whatever name the settings give it
    summary = ""
    program = ""
    install = ""  # the command that installs it
    answer_keys: dict[str, str] = {}
    features: tuple[str, ...] = FEATURES  # the subset of FEATURES that the program has
    user_variables: tuple[str, ...] = ()  # the user's variables that select its model and login
    model_url_variables: dict[str, str] = {}  # the variable with the model's URL: the default URL
    yolo_arguments: tuple[str, ...] = ()  # its arguments for working without permission prompts
    ask_arguments: tuple[str, ...] = ()  # its arguments for asking before each action
    paste_patterns: tuple[str, ...] = ()  # what it shows in place of a long pasted text
    ready = "status"  # files in the agent's directory that exist once it accepts messages
    asking = ""  # what the screen shows when it asks for permission, one variant per line
    clear = ""  # the key that deletes a part of its input box, and the key that moves to its end
    empty = ""  # how the cursor's line looks when the input box is empty
    obeyed = ""  # first characters that make a text a command to the program
    blocking_reasons: tuple[str, ...] = (
        "permission",
        "question",
    )  # while it waits for these, a text would choose an answer
    transcript_paths: tuple[str, ...] = ()  # shell globs, relative to the agent's directory
    written_names: tuple[str, ...] = ()  # see FileWritingKind
    renewal_key: tuple[str, str | None] = (
        "",
        None,
    )  # the key in a login file that renews the login, and its replacement in copies
    keys = frozenset({"parent", "program", "args", "env", "carry", "login"})  # valid in [agents.NAME]

    def __init__(self, name: str, load_settings: Callable[[], Mapping[str, object]]) -> None:
        self.name = name
        self._load_settings = load_settings
        self._settings: KindSettings | None = None

    @property
    def settings(self) -> KindSettings:
        """Return the settings of `[agents.NAME]`; raise UsageError for an unknown key."""
        if self._settings is None:
            self._settings = self._parse_settings(self._load_settings())
        return self._settings

    def _parse_settings(self, values: Mapping[str, object]) -> KindSettings:
        for key in values:
            if key.partition(".")[0] not in self.keys:
                known = ", ".join(sorted(self.keys))
                raise UsageError(f"{self.parent} has no setting agents.{self.name}.{key}", f"use one of: {known}")
        login = values.get("login", "shared")
        if login not in LOGIN_MODES:
            raise UsageError(f"agents.{self.name}.login cannot be {login!r}", "use one of: " + ", ".join(LOGIN_MODES))
        return KindSettings(
            program=str(values.get("program") or ""),
            args=[str(argument) for argument in as_list(values.get("args"))],
            env={key[4:]: str(value) for key, value in values.items() if key.startswith("env.")},
            carry=[str(topic) for topic in as_list(values.get("carry"))],
            has_login=login != "none",
        )

    @property
    def programs(self) -> tuple[str, ...]:
        return (self.executable,)

    @property
    def executable(self) -> str:
        """Return the program to run: a path, or a name to look up in the agent's PATH."""
        return os.path.expanduser(self._configured_executable)

    @property
    def _configured_executable(self) -> str:
        return self.settings.program or self.program

    def resolve_executable(self, host: Host) -> str:
        """Return the program to run on the host, with ~ expanded to the user's home there."""
        if host.provider == "local" or not self._configured_executable.startswith("~/"):
            return self.executable
        return host.run(["sh", "-c", "cd && pwd"]).text + self._configured_executable[1:]

    def check_arguments(self, args: list[str], options: KindOptions) -> None:
        if "permissions" not in self.features:
            reject_yolo(self.parent, options)
        if options.resume:
            self.get_user_conversation(options.resume)
        if args and not args[0].startswith("-"):
            raise UsageError(
                f"{args[0]!r} is not an option of {self.parent}",
                f"to send it as the first message: mngr create NAME {self.name} -m {shell.quote(args[0])}",
            )

    def get_user_conversation(self, name: str) -> str:
        """Return the file of a conversation that the user began outside mngr; raise MngrError if there is none."""
        raise UsageError(
            f"{self.parent} cannot continue a conversation that you started outside mngr", "leave out --resume"
        )

    def adopt_conversation(self, host: Host, record: AgentRecord, target_dir: str, root: str | None = None) -> None:
        """Copy the conversation that the user named into `target_dir` when the agent is created.

        With `root`, the copy keeps its path relative to that directory of the user.
        """
        name = record.options.get("resume")
        if name and record.phase == "creating":
            path = self.get_user_conversation(str(name))
            name = os.path.relpath(path, root) if root else os.path.basename(path)
            copy_to_agent(host, record, path, os.path.join(target_dir, name))

    def get_user_variables(self) -> dict[str, str]:
        """Return the variables that every agent of this kind gets: the user's own and those in `[agents.NAME]`."""
        inherited = {name: os.environ[name] for name in self.user_variables if os.environ.get(name)}
        return {**inherited, **self.settings.env}

    def build_variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        """Return the environment variables that the program needs."""
        return {}

    def list_model_addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        """Return HOST:PORT of the models it uses with these variables; a sandbox allows only these."""
        return parse_addresses(
            variables.get(name) or default_url for name, default_url in self.model_url_variables.items()
        )

    def prepare(self, host: Host, record: AgentRecord) -> None:
        write_file(host, record, HOOK_FILE, scripts.read_program_beside(__file__, "hook.sh").encode())

    def list_login_files(self) -> dict[str, str]:
        """Return the user's login files, each with its place in the agent's directory."""
        return {}

    def install_login(self, host: Host, record: AgentRecord) -> None:
        """Give the agent the user's login.

        Local agents without a sandbox share one file, so that a renewal logs nobody out. Other agents get a copy.
        """
        if not self.settings.has_login:
            return
        for path, name in self.list_login_files().items():
            if not os.path.isfile(path):
                continue
            if host.is_local and not record.sandbox:
                host.run(["ln", "-sf", path, os.path.join(host.home.agent_dir(record.id), name)])
                continue
            # The copy cannot renew the login, because a renewal there would log out everyone else.
            copy_login(host, record, path, name, self.renewal_key)

    def refresh_login(self, host: Host, record: AgentRecord) -> None:
        """Replace a copied login by the user's current one; a login made on the host itself stays."""
        names = [name for path, name in self.list_login_files().items() if os.path.isfile(path)]
        if names and not any(can_renew(read_json(host, record, name), *self.renewal_key) for name in names):
            self.install_login(host, record)

    def build_base_command(self, host: Host, record: AgentRecord) -> list[str]:
        """Return the program with the arguments that every start needs."""
        mode_arguments = self.yolo_arguments if record.options.get("yolo") else self.ask_arguments
        return [self.resolve_executable(host), *mode_arguments, *self.settings.args, *record.command]

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        return self.build_base_command(host, record)

    def state(self, record: AgentRecord, evidence: Evidence) -> AgentState:
        state = derive_state(record, evidence)
        if state.state not in _LIVE_STATES or state.source == "record":
            return state
        if state.source == "process":
            state = state.replace(state="STARTING")  # no hook has reported yet
        return self.refine_state(evidence, state)

    def refine_state(self, evidence: Evidence, state: AgentState) -> AgentState:
        """Return the state of a running program, given the `state` that its hooks reported last."""
        return park_if_limited(evidence, state)

    def read_own_status(self, evidence: Evidence) -> tuple[str, str | None] | None:
        """Return the program's own status as text with its time, or None when it has written none."""
        if evidence.program_status is None:
            return None
        status = evidence.program_status.get("status")
        waiting_for = evidence.program_status.get("waitingFor")
        text = f"the status file of the program reports {status}" + (f" ({waiting_for})" if waiting_for else "")
        return text, format_milliseconds(evidence.program_status.get("statusUpdatedAt"))

    def is_screen_needed(self, evidence: Evidence, state: AgentState) -> bool:
        """True when the screen could refine `state`. mngr asks this for every agent, so it is rarely True."""
        return False

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        pending_text = "\n".join(
            [line[-_TAIL_LENGTH:] for line in [text.rstrip().rpartition("\n")[2]] if line] + list(self.paste_patterns)
        )
        return Delivery(
            text=text,
            ready=self.ready,
            proof="hook",
            arrival_marker=encode_message_marker(text),
            pending_text=pending_text,
            clear_keys=self.clear,
            empty_line_patterns=self.empty,
            command_prefixes=self.obeyed,
            blocking_reasons=self.blocking_reasons,
        )

    def build_answer(self, key: str) -> Delivery:
        """Return the key press that allows or denies a permission."""
        return Delivery(
            text=key,
            ready=self.ready,
            proof="program",
            is_key=True,
            pending_text=self.asking,
            clear_keys=self.clear,
            empty_line_patterns=self.empty,
        )

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
        """Yield the entries of the conversation."""
        raise NotImplementedError


def reject_coding_options(kind: str, options: KindOptions) -> None:
    """Raise UsageError when a kind that is not a coding agent gets an option that only coding agents have."""
    reject_yolo(kind, options)
    if options.resume:
        raise UsageError(
            f"an agent of kind {kind} has no conversation, so --resume does not work", "leave out --resume"
        )


def reject_yolo(kind: str, options: KindOptions) -> None:
    """Raise UsageError when --yolo is given to a kind that never asks for permission."""
    if options.yolo:
        raise UsageError(f"{kind} never asks for permission, so --yolo has no effect", "leave out --yolo")


def parse_addresses(urls: Iterable[str]) -> tuple[str, ...]:
    """Return HOST:PORT of each URL, without duplicates."""
    from urllib.parse import urlsplit

    addresses: list[str] = []
    for text in urls:
        url = urlsplit(text)
        if url.hostname:
            addresses.append(f"{url.hostname}:{url.port or (80 if url.scheme == 'http' else 443)}")
    return tuple(dict.fromkeys(addresses))


def encode_message_marker(text: str) -> str:
    """Return the text that proves a message's arrival: its beginning, encoded as in a hook's JSON."""
    import json

    plain = text.strip().partition("\t")[0][:_MARKER_LENGTH]  # a program may turn a tab into spaces
    start = json.dumps(plain, ensure_ascii=False)[1:-1].rstrip("\\")
    end = '"' if plain == text and not text.endswith("\\") else ""
    return start if text[:1].isspace() else f'"prompt":"{start}{end}'


def build_hook_command(kind: str, state: str, reason: str = "") -> str:
    """Return the command line by which a program's hook reports its state."""
    return f'sh "$MNGR_AGENT_DIR/{HOOK_FILE}" {kind} {state} {reason}'.rstrip()


# Maps a program's name for the error that ended a turn to the reason for PARKED.
_PARK_REASONS = {
    "rate_limit": "rate_limit",
    "overloaded": "rate_limit",
    "overloaded_error": "rate_limit",
    "billing_error": "quota",
    "usage_limit": "quota",
    "usage_limit_reached": "quota",
    "authentication_failed": "login",
    "authentication_error": "login",
    "invalid_api_key": "login",
    "oauth_org_not_allowed": "login",
}


def find_park_reason(error: str) -> str | None:
    """Return the reason for PARKED after an error that ended a turn, or None for other errors."""
    return _PARK_REASONS.get(error)


def park_if_limited(evidence: Evidence, state: AgentState) -> AgentState:
    """Return PARKED when the last turn ended with a limit or an invalid login, else `state`."""
    error = (evidence.hook_status or {}).get("error")
    if state.state != "WAITING" or not isinstance(error, str):
        return state
    reason, until = find_park_reason(error), None
    message = (evidence.hook_status or {}).get("message")
    if isinstance(message, str):
        from mngr.kinds import limit_resets

        if reset := limit_resets.find_reset(message):
            reason, until = "quota", limit_resets.parse_reset(reset, state.since, evidence.now)
    if reason is None:
        return state.replace(reason="end_of_turn")
    return state.replace(state="PARKED", reason=reason, parked_until=until)


def format_milliseconds(milliseconds: object) -> str | None:
    """Return a time in milliseconds as a timestamp, or None when it is not a valid time."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return time_format.format_timestamp(milliseconds / 1000) if 0 < milliseconds < 1e14 else None


# Caches the version for each build of a program, because asking the program takes a quarter of a second.
_VERSION_SCRIPT = """
. "$1/env"
path=$(command -v "$2") || exit 0
key=$(ls -liL "$path")
mkdir -p "${3%/*}"
{ read -r known && read -r version; } <"$3" 2>/dev/null
if [ "$known" != "$key" ]; then
    version=$("$path" --version 2>/dev/null </dev/null | head -n 1)
    printf '%s\\n' "$key" "$version" >"$3.$$" && mv -f "$3.$$" "$3"
fi
printf '%s\\n' "$version"
"""


def read_version(host: Host, record: AgentRecord, program: str) -> tuple[int, ...]:
    """Return the version of the program that the agent will run, or () when it is unknown."""
    import re
    import zlib

    cache = os.path.join(host.home.cache, "versions", f"{zlib.crc32(program.encode()):08x}")
    output = host.run(
        ["sh", "-c", _VERSION_SCRIPT, "version", host.home.agent_dir(record.id), program, cache], timeout=30.0
    ).text
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", output)
    return tuple(int(part) for part in match.groups()) if match else ()
