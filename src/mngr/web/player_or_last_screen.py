"""The player for recordings, which `make setup` downloads, and the replacement where it is missing."""

from __future__ import annotations

import os

from mngr.base.untrusted_json import as_object, get_int, parse_json
from mngr.web.static_files import STATIC_DIR

SCRIPT, STYLE = "asciinema-player.min.js", "asciinema-player.css"
_MAX_EVENTS = 200_000  # The most events to replay for the last screen.


def has_player() -> bool:
    """True when the player is installed."""
    return all(os.path.isfile(os.path.join(STATIC_DIR, name)) for name in (SCRIPT, STYLE))


def render_last_screen(cast: str) -> str:
    """Return the last screen of a recording as text."""
    import pyte

    lines = cast.splitlines()
    try:
        header = as_object(parse_json(lines[0]))
    except (ValueError, IndexError):
        return ""
    screen = pyte.Screen(*(max(1, min(get_int(header, key), 500)) for key in ("width", "height")))
    stream = pyte.Stream(screen)
    for event_line in lines[1:_MAX_EVENTS]:
        try:
            _, kind, text = parse_json(event_line)
        except (ValueError, TypeError):
            continue
        if kind == "o" and isinstance(text, str):
            stream.feed(text)
    return "\n".join(screen_line.rstrip() for screen_line in screen.display).rstrip("\n")
