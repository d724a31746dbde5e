"""The player for recordings: a browser's part that `make setup` fetches, and what is shown where it is missing."""

from __future__ import annotations

import json
import os

STATIC_DIR = os.path.join(os.path.dirname(__file__), "static")
SCRIPT, STYLE = "asciinema-player.min.js", "asciinema-player.css"
_MAX_EVENTS = 200_000  # events that are read for a picture


def has_player() -> bool:
    """Whether recordings can be played."""
    return all(os.path.isfile(os.path.join(STATIC_DIR, name)) for name in (SCRIPT, STYLE))


def render_last_screen(cast: str) -> str:
    """How the terminal of a recording looked in the end."""
    import pyte

    rows = cast.splitlines()
    try:
        header = json.loads(rows[0])
        screen = pyte.Screen(*(max(1, min(int(header[key]), 500)) for key in ("width", "height")))
    except (ValueError, TypeError, KeyError, IndexError):
        return ""
    stream = pyte.Stream(screen)
    for row in rows[1:_MAX_EVENTS]:
        try:
            _, kind, text = json.loads(row)
        except (ValueError, TypeError):
            continue
        if kind == "o" and isinstance(text, str):
            stream.feed(text)
    return "\n".join(line.rstrip() for line in screen.display).rstrip("\n")
