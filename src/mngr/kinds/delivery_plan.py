"""Describes how a message reaches a program in a terminal, and checks the text of messages."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.base.model import Struct


class Delivery(Struct):
    """The keys that mngr types to deliver a message, and the signs it waits for before and after."""

    text: str
    ready: str | None = None  # files in the agent's directory (shell globs) that all exist once it accepts messages
    pause: float = 0.0  # seconds between the paste and Enter: some programs need time to process a paste
    proof: str = "sent"  # hook | transcript | api | screen | sent
    arrival_marker: str | None = None  # a fixed string that appears in events.jsonl when the message has arrived
    pending_text: str = ""  # what the screen shows at the cursor while the text still waits for Enter
    command_prefixes: str = ""  # first characters by which the program recognizes its own commands
    blocking_reasons: tuple[str, ...] = ()  # wait reasons for which a text would not arrive as a message
    # The key that deletes a part of the input box, and the key to its end: together they clear an interrupted message.
    clear_keys: str = ""
    empty_line_patterns: str = ""  # how the cursor's line looks when the input box is empty, one variant per line
    is_key: bool = False  # the text is the name of a key: press it once, without Enter
    dialog_pattern: str = ""  # for sed: matches a line of a blocking dialog and captures the key that closes it
    prompt: str = ""  # for awk: how the input line begins, for programs that keep the cursor elsewhere
    inbox_dir: str = ""  # the agent's directory from which the program reads messages and answers as files


def check_text(text: str) -> str:
    """Return `text` if a terminal can carry it; raise MngrError otherwise.

    A hidden end-of-paste sequence would turn the rest of the text into key presses.
    """
    for char in sorted(set(text)):
        if (ord(char) < 32 and char not in "\n\t") or ord(char) == 127 or 0x80 <= ord(char) < 0xA0:
            raise MngrError(
                f"the message contains the control character {char!r}, which a terminal would execute",
                "remove it; only line breaks and tabs are allowed",
            )
        if 0xD800 <= ord(char) < 0xE000:
            raise MngrError("the message is not valid UTF-8", "convert the text to UTF-8: iconv -t UTF-8 FILE")
    if not text.strip():
        raise MngrError(
            "the message is empty", "give it with -m TEXT, or on standard input: echo TEXT | mngr message NAME"
        )
    return text


def reject_slash_command(delivery: Delivery) -> Delivery:
    """Return `delivery`; raise MngrError if the program would read its text as a command instead of a message."""
    first = delivery.text.lstrip()[:1]
    if first and first in delivery.command_prefixes:
        raise MngrError(
            f"the program would run a message that starts with {first!r} as a command",
            "to send it anyway, add: --raw",
        )
    return delivery
