"""How messages reach a program in a terminal."""

from __future__ import annotations

from mngr.errors import MngrError
from mngr.model import Record


class Delivery(Record):
    """What to type and what to wait for."""

    text: str
    pause: float = 0.0  # between the paste and Enter: some programs need a moment to take a paste in
    proof: str = "sent"  # hook | transcript | api | screen | sent
    mark: str | None = None  # a fixed string that appears in events.jsonl when the message has arrived


def check_text(text: str) -> str:
    """`text` if a terminal can carry it: a hidden end of paste would turn the rest into keys."""
    for char in text:
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
