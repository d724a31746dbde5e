"""What all coding agents have in common: a program with a directory, hooks and a conversation of its own."""

from __future__ import annotations

import os

from mngr.base import clock
from mngr.base.errors import UsageError
from mngr.base.model import AgentState
from mngr.host import scripts
from mngr.kinds.agent_state import derive_state
from mngr.kinds.delivery import Delivery
from mngr.kinds.program_files import can_renew, copy_login, copy_to_agent, read_json, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from mngr.base.model import AgentRecord, Evidence
    from mngr.host.protocol import Host

HOOK_FILE = "hook.sh"
_MARKER_LENGTH = 400  # characters of a message that are looked for in a hook's words: no two senders are at it at once
_TAIL_LENGTH = 20  # characters: enough to know the end of a text by, and on one line of any screen
LOGIN_MODES = ("shared", "none")
_LIVE_STATES = ("STARTING", "RUNNING", "WAITING", "PARKED")
FEATURES = ("hooks", "permissions", "questions", "tools", "resume", "usage", "cost", "limits")


class CodingAgentKind:
    """A coding agent. A kind says what differs; `[agents.NAME]` in the settings makes more of one, by `parent`."""

    parent = ""  # the kind this is, under whatever name
    summary = ""
    program = ""
    install = ""  # how to get it
    answer_keys: dict[str, str] = {}
    features: tuple[str, ...] = FEATURES  # of FEATURES, what the program has
    user_variables: tuple[str, ...] = ()  # variables of the user's by which the program finds its model and its login
    model_url_variables: dict[str, str] = {}  # the variable that says where its model is, and where it is otherwise
    yolo_arguments: tuple[str, ...] = ()  # its words for: ask nobody
    ask_arguments: tuple[str, ...] = ()  # its words for: ask before you do something
    paste_patterns: tuple[str, ...] = ()  # how it shows a long text that waits for Enter
    ready = "status"  # files in the agent's directory that are there once it takes messages
    asking = ""  # what is on the screen when it asks for a permission, one way a line
    clear = ""  # the key that takes away a piece of what stands in its input box, and the one to its end
    empty = ""  # how the line of the cursor looks when nothing does
    obeyed = ""  # first characters that are orders to the program
    blocking_reasons: tuple[str, ...] = (
        "permission",
        "question",
    )  # while it waits for these, text would choose an answer
    transcript_paths: tuple[str, ...] = ()  # where it keeps it, from the agent's directory; * as in a shell
    writes: tuple[str, ...] = ()  # names in the agent's directory that the program changes
    renewal_key: tuple[str, str | None] = (
        "",
        None,
    )  # in a login, the key of what renews it; and what stands in its place
    keys = frozenset({"parent", "program", "args", "env", "carry", "login"})  # of its settings

    def __init__(self, name: str, options: Callable[[], dict[str, Any]]) -> None:
        self.name = name
        self._load = options
        self._options: dict[str, Any] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """`[agents.NAME]`; UsageError for a key that means nothing."""
        if self._options is None:
            self._options = dict(self._load())
            for key in self._options:
                if key.partition(".")[0] not in self.keys:
                    known = ", ".join(sorted(self.keys))
                    raise UsageError(f"agents.{self.name}.{key} is no setting of {self.parent}", f"it has: {known}")
            if (login := self._options.get("login", "shared")) not in LOGIN_MODES:
                raise UsageError(f"agents.{self.name}.login is {login!r}", "it can be: " + ", ".join(LOGIN_MODES))
        return self._options

    @property
    def programs(self) -> tuple[str, ...]:
        return (self.executable,)

    @property
    def executable(self) -> str:
        """What is run: a name to be found in the agent's PATH, or a path."""
        return os.path.expanduser(self._configured_executable)

    @property
    def _configured_executable(self) -> str:
        return str(self.options.get("program") or self.program)

    def resolve_executable(self, host: Host) -> str:
        """What is run there; ~ is the home that the user has there."""
        if host.is_local or not self._configured_executable.startswith("~/"):
            return self.executable
        return host.run(["sh", "-c", "cd && pwd"]).text + self._configured_executable[1:]

    def check_arguments(self, args: list[str], options: dict[str, Any]) -> None:
        if "permissions" not in self.features:
            reject_yolo(self.parent, options)
        if options.get("resume"):
            self.get_user_conversation(str(options["resume"]))
        if args and not args[0].startswith("-"):
            raise UsageError(
                f"{args[0]!r} is no option of {self.parent}",
                f"what follows -- goes to the program; a first message goes with -m: -m {args[0]!r}",
            )

    def get_user_conversation(self, name: str) -> str:
        """The file of a conversation that the user began without us; raises MngrError."""
        raise UsageError(f"{self.parent} cannot go on with a conversation that was begun outside", "leave out --resume")

    def adopt_conversation(self, host: Host, record: AgentRecord, place: str, root: str | None = None) -> None:
        """Take up the conversation that the user named, once: from then on it is the agent's own, in `place`.

        With `root`, a directory of the user's, as deep below `place` as it lay below that.
        """
        name = record.options.get("resume")
        if name and record.phase == "creating":
            path = self.get_user_conversation(str(name))
            name = os.path.relpath(path, root) if root else os.path.basename(path)
            copy_to_agent(host, record, path, os.path.join(place, name))

    def get_user_variables(self) -> dict[str, str]:
        """Variables that the user did not name for this agent: his own that the program goes by, and those of its settings."""
        own = {name: os.environ[name] for name in self.user_variables if os.environ.get(name)}
        return {**own, **{k[4:]: str(v) for k, v in self.options.items() if k.startswith("env.")}}

    def build_variables(self, host: Host, record: AgentRecord) -> dict[str, str]:
        """What the program must find in its environment."""
        return {}

    def addresses(self, variables: dict[str, str]) -> tuple[str, ...]:
        """HOST:PORT of the models it talks to, with these variables: what it may reach from a sandbox."""
        return parse_addresses(variables.get(name) or usual for name, usual in self.model_url_variables.items())

    def prepare(self, host: Host, record: AgentRecord) -> None:
        write_file(host, record, HOOK_FILE, scripts.read_program_beside(__file__, "hook.sh").encode())

    def logins(self) -> dict[str, str]:
        """The user's own files by which the program is logged in, and where it looks for each in the agent's directory."""
        return {}

    def install_login(self, host: Host, record: AgentRecord) -> None:
        """The user's own login: one file for all agents that can see it, so that renewing it logs nobody out."""
        if self.options.get("login") == "none":
            return
        for path, name in self.logins().items():
            if not os.path.isfile(path):
                continue
            if host.is_local and not record.sandbox:
                host.run(["ln", "-sf", path, os.path.join(host.home.agent_dir(record.id), name)])
                continue
            copy_login(host, record, path, name, self.renewal_key)  # whoever renews it ends the login of all others

    def refresh_login(self, host: Host, record: AgentRecord) -> None:
        """The login that the user has by now, in place of a copy; one that the agent was given there stays."""
        found = [name for path, name in self.logins().items() if os.path.isfile(path)]
        if found and not any(can_renew(read_json(host, record, name), *self.renewal_key) for name in found):
            self.install_login(host, record)

    def build_base_command(self, host: Host, record: AgentRecord) -> list[str]:
        """The program with what is asked of it in every case."""
        mode = self.yolo_arguments if record.options.get("yolo") else self.ask_arguments
        more = self.options.get("args") or []
        return [self.resolve_executable(host), *mode, *(str(word) for word in more), *record.command]

    def command(self, host: Host, record: AgentRecord, *, resume: bool) -> list[str]:
        return self.build_base_command(host, record)

    def state(self, record: AgentRecord, evidence: Evidence) -> AgentState:
        state = derive_state(record, evidence)
        if state.state not in _LIVE_STATES or state.source == "record":
            return state
        if state.source == "process":
            state = state.replace(state="STARTING")  # it has not said a word yet
        return self.refine_state(evidence, state)

    def refine_state(self, evidence: Evidence, state: AgentState) -> AgentState:
        """The state of a program that runs, when `state` is what its hooks said last."""
        return park_if_limited(evidence, state)

    def read_own_status(self, evidence: Evidence) -> tuple[str, str | None] | None:
        """What its own file says, for people, and since when; None when there is none."""
        if evidence.program_status is None:
            return None
        status, why = evidence.program_status.get("status"), evidence.program_status.get("waitingFor")
        said = f"the program's own file says {status}" + (f" ({why})" if why else "")
        return said, format_milliseconds(evidence.program_status.get("statusUpdatedAt"))

    def wants_screen(self, evidence: Evidence, state: AgentState) -> bool:
        """Whether only the screen could tell more than `state` says; asked for every agent, so mostly not."""
        return False

    def delivery(self, record: AgentRecord, text: str) -> Delivery:
        shown = "\n".join(
            [line[-_TAIL_LENGTH:] for line in [text.rstrip().rpartition("\n")[2]] if line] + list(self.paste_patterns)
        )
        return Delivery(
            text=text,
            ready=self.ready,
            proof="hook",
            arrival_marker=encode_message_marker(text),
            pending_text=shown,
            clear_keys=self.clear,
            empty_line_patterns=self.empty,
            command_prefixes=self.obeyed,
            blocking_reasons=self.blocking_reasons,
        )

    def build_answer(self, key: str) -> Delivery:
        """A permission, by the key that gives or refuses it."""
        return Delivery(
            text=key,
            ready=self.ready,
            proof="program",
            is_key=True,
            pending_text=self.asking,
            clear_keys=self.clear,
            empty_line_patterns=self.empty,
        )

    def parse_transcript(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """The rows of its conversation in our schema."""
        raise NotImplementedError


def reject_coding_options(kind: str, options: dict[str, Any]) -> None:
    """UsageError when what only coding agents have is asked of another kind."""
    reject_yolo(kind, options)
    if options.get("resume"):
        raise UsageError(f"{kind} has no conversations that were begun outside", "leave out --resume")


def reject_yolo(kind: str, options: dict[str, Any]) -> None:
    """UsageError when that is asked of a kind that has no such thing."""
    if options.get("yolo"):
        raise UsageError(f"{kind} never asks for permission, so --yolo changes nothing", "leave it out")


def parse_addresses(urls: Iterable[str]) -> tuple[str, ...]:
    """HOST:PORT of each, once."""
    from urllib.parse import urlsplit

    found: list[str] = []
    for text in urls:
        url = urlsplit(text)
        if url.hostname:
            found.append(f"{url.hostname}:{url.port or (80 if url.scheme == 'http' else 443)}")
    return tuple(dict.fromkeys(found))


def parse_rows(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Of lines that are in our schema already, those that are JSON."""
    import json

    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def encode_message_marker(text: str) -> str:
    """How a message looks in the JSON of a hook, or the beginning of a long one, as every JSON writer encodes it."""
    import json

    plain = text.strip().partition("\t")[0][:_MARKER_LENGTH]  # a tab may become spaces
    start = json.dumps(plain, ensure_ascii=False)[1:-1].rstrip("\\")
    end = '"' if plain == text and not text.endswith("\\") else ""
    return start if text[:1].isspace() else f'"prompt":"{start}{end}'


def build_hook_command(kind: str, state: str, reason: str = "") -> str:
    """The command line by which a program tells of itself."""
    return f'sh "$MNGR_AGENT_DIR/{HOOK_FILE}" {kind} {state} {reason}'.rstrip()


# What programs call the trouble that ended a turn, and the state that follows.
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


def park_if_limited(evidence: Evidence, state: AgentState) -> AgentState:
    """`state`, or PARKED when the last turn ended with a limit or a login that is dead."""
    error = (evidence.hook_status or {}).get("error")
    if state.state != "WAITING" or not isinstance(error, str):
        return state
    reason, until = _PARK_REASONS.get(error), None
    said = (evidence.hook_status or {}).get("message")
    if isinstance(said, str):
        from mngr.kinds import limit_resets

        if reset := limit_resets.find_reset(said):
            reason, until = "quota", limit_resets.parse_reset(reset, state.since, evidence.now)
    if reason is None:
        return state.replace(reason="end_of_turn")
    return state.replace(state="PARKED", reason=reason, parked_until=until)


def format_milliseconds(milliseconds: object) -> str | None:
    """A time that a program counts in milliseconds, as a stamp."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return clock.format_timestamp(milliseconds / 1000) if 0 < milliseconds < 1e14 else None


# Asked once for each build of a program: asking costs a quarter of a second.
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
    """The version of the program that the agent will run; empty when it cannot be told."""
    import re
    import zlib

    cache = os.path.join(host.home.cache, "versions", f"{zlib.crc32(program.encode()):08x}")
    said = host.run(
        ["sh", "-c", _VERSION_SCRIPT, "version", host.home.agent_dir(record.id), program, cache], timeout=30.0
    ).text
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
    return tuple(int(part) for part in found.groups()) if found else ()
