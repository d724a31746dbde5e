"""How messages reach a program in a terminal."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.base.model import Struct


class Delivery(Struct):
    """What to type and what to wait for."""

    text: str
    ready: str | None = None  # files in the agent's directory, with * as in a shell: all there once it takes messages
    pause: float = 0.0  # between the paste and Enter: some programs need a moment to take a paste in
    proof: str = "sent"  # hook | transcript | api | screen | sent
    arrival_marker: str | None = None  # a fixed string that appears in events.jsonl when the message has arrived
    pending_text: str = ""  # what stands where the cursor is while the text still waits for Enter
    command_prefixes: str = ""  # first characters that the program would take for an order of its own
    blocking_reasons: tuple[str, ...] = ()  # what it may wait for while a text would do something else than arrive
    clear_keys: str = ""  # the key that takes away what stands in its input box, a piece a time, and the one to its end: an interrupted message comes back
    empty_line_patterns: str = ""  # how the line of the cursor looks when nothing stands there, one way a line
    is_key: bool = False  # the text is the name of a key, pressed once, and no Enter follows
    dialog_pattern: str = ""  # for sed: a line of a question that stands in the way, marking the key that closes it
    prompt: str = ""  # for awk: how the line begins where a text waits for Enter, when the cursor does not stand there
    inbox_dir: str = ""  # a directory of the agent from which the program takes messages and answers as files


def check_text(text: str) -> str:
    """`text` if a terminal can carry it: a hidden end of paste would turn the rest into keys."""
    for char in sorted(set(text)):
        if (ord(char) < 32 and char not in "\n\t") or ord(char) == 127 or 0x80 <= ord(char) < 0xA0:
            raise MngrError(
                f"the message holds the control character {char!r}, which a terminal would obey",
                "send plain text; line ends and tabs are fine",
            )
        if 0xD800 <= ord(char) < 0xE000:
            raise MngrError("the message is not valid UTF-8", "send plain text")
    if not text.strip():
        raise MngrError("the message is empty", "give it with -m TEXT or on standard input")
    return text


def reject_slash_command(delivery: Delivery) -> Delivery:
    """`delivery` if the program will read its text as a message and not as an order."""
    first = delivery.text.lstrip()[:1]
    if first and first in delivery.command_prefixes:
        raise MngrError(
            f"a message that starts with {first!r} is an order to the program itself",
            "send it all the same with --raw",
        )
    return delivery
