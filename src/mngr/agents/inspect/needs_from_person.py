"""Says what an agent needs from a person: its question, and the commands that answer it.

An agent writes its own events and its own conversation, so its question is untrusted text. Clean it before you print it.
"""

from __future__ import annotations

import json

from mngr.agents.context import Context
from mngr.agents.sandbox import bubblewrap
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord
from mngr.base.untrusted_json import as_object, find_text, get_object, get_objects, get_text, parse_json
from mngr.host.protocol import Host
from mngr.kinds.coding_agent import CodingAgentKind

_MAX_QUESTION_LENGTH = 2000  # characters
_MAX_EVENT_BYTES, _MAX_TRANSCRIPT_BYTES = 32 * 1024, 256 * 1024  # of the end of a file
_READ_TIMEOUT = 10.0
_REQUEST_TYPES = ("permission", "question")
_CUT = b"\0mngr-cut\n"
# Prints the end of the events, then the end of the newest conversation. Only plain files are read.
_READ_ENDS = r"""cd "$1" || exit 0
[ -f events.jsonl ] && ! [ -L events.jsonl ] && tail -c "$2" events.jsonl
printf '\n\000mngr-cut\n'
size=$3
shift 3
ls -td $* 2>/dev/null | while IFS= read -r name; do
    case $name in */*) [ "$(cd "${name%/*}" && pwd -P)" = "$(pwd -P)/${name%/*}" ] || continue ;; esac
    if [ -f "$name" ] && ! [ -L "$name" ]; then tail -c "$size" "$name" && break; fi
done
"""


def list_answers(ctx: Context, record: AgentRecord, state: str, reason: str | None) -> tuple[str, ...]:
    """Return the complete commands with which a person gives the agent what it needs, or an empty tuple."""
    name = record.name
    try:
        kind = ctx.get_agent_kind(record)
    except MngrError:
        return ()
    if state == "WAITING" and reason == "permission" and kind.answer_keys:
        return f"mngr message {name} --allow", f"mngr message {name} --deny"
    if state == "WAITING" and isinstance(kind, CodingAgentKind) and reason in kind.blocking_reasons:
        return (f"mngr connect {name}",)
    if state in ("WAITING", "PARKED"):
        return (f"mngr message {name} -m TEXT",)
    if state == "FAILED":
        return f"mngr explain {name}", f"mngr start {name}"
    return ()


def read_question(ctx: Context, host: Host, record: AgentRecord, *, until: str | None = None) -> str:
    """Return what the agent asks, or last said, as untrusted text. It is empty when the agent said nothing.

    With `until`, a timestamp, ignore what came later. This makes one call to the host, which may raise MngrError.
    """
    return find_question(ctx, record, read_last_words(ctx, host, record), until=until)


def read_last_words(ctx: Context, host: Host, record: AgentRecord) -> bytes:
    """Return the ends of an agent's events and of its conversation, for `find_question`."""
    try:
        kind = ctx.get_agent_kind(record)
    except MngrError:
        return b""
    directory = host.home.agent_dir(record.id)
    argv = [
        "sh",
        "-c",
        _READ_ENDS,
        "read",
        directory,
        str(_MAX_EVENT_BYTES),
        str(_MAX_TRANSCRIPT_BYTES),
        *kind.transcript_paths,
    ]
    return bubblewrap.open_sandboxed_host(host, record).run(argv, timeout=_READ_TIMEOUT).out


def find_question(ctx: Context, record: AgentRecord, last_words: bytes, *, until: str | None = None) -> str:
    """Return what the agent asked, or last said, as untrusted text. With `until`, a timestamp, ignore what came later."""
    try:
        kind = ctx.get_agent_kind(record)
    except MngrError:
        return ""
    events, _, transcript = last_words.partition(_CUT)
    request, requested_at = _find_last_request(events.split(b"\n"), until)
    answers = [
        entry
        for entry in kind.parse_transcript(transcript.split(b"\n"))
        if entry.role == "assistant" and entry.text.strip() and not (until and (entry.at or "") > until)
    ]
    last = answers[-1] if answers else None
    if request and (last is None or requested_at >= (last.at or "")):
        return request
    return last.text.strip()[:_MAX_QUESTION_LENGTH] if last is not None else request


def describe_request(event_type: str, data: dict[str, object]) -> str:
    """Return the question in what a program's hook reported with an event, or an empty text."""
    if event_type not in _REQUEST_TYPES:
        return ""
    tool_input = get_object(data, "tool_input")
    questions = [_format_question(row) for row in get_objects(tool_input, "questions")]
    if any(questions):
        return "\n".join(filter(None, questions))[:_MAX_QUESTION_LENGTH]
    tool = find_text(data, "tool_name")
    details = next((text for key in ("command", "file_path", "path", "url") if (text := get_text(tool_input, key))), "")
    if not details and tool_input:
        details = json.dumps(tool_input, ensure_ascii=False)
    message = details or get_text(data, "message")
    return (f"{tool}: {message}" if tool and message else tool or message)[:_MAX_QUESTION_LENGTH]


def _format_question(row: dict[str, object]) -> str:
    """Return a question followed by its options."""
    labels = [get_text(option, "label") for option in get_objects(row, "options")]
    options = ", ".join(filter(None, labels))
    return get_text(row, "question") + (f" ({options})" if options else "")


def _find_last_request(lines: list[bytes], until: str | None) -> tuple[str, str]:
    """Return the question and the time of the last event in which a program asks, if it says what."""
    for line in reversed(lines):
        try:
            row = as_object(parse_json(line))
        except ValueError:
            continue
        at = get_text(row, "at")
        if until and at > until:
            continue
        text = describe_request(get_text(row, "type"), get_object(row, "data"))
        if text:
            return text, at
    return "", ""
