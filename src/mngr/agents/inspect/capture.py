"""`capture`: what an agent's screen shows, or showed when it was stopped."""

from __future__ import annotations

import os

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.targets import LIVE_STATES, get_record
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import Struct
from mngr.host import tmux


class ScreenCapture(Struct):
    """The text of a screen, with escape sequences for its colours."""

    id: str
    name: str
    live: bool  # False for the screen that was saved when the agent was stopped
    text: str


def capture_screen(ctx: Context, name: str, history: int | None = 0) -> ScreenCapture:
    """The screen and so many lines of what has scrolled away before it, all of it when `history` is None."""
    seen = find.observe_agent(ctx, name)
    record = get_record(seen)
    host, pane = seen.host, seen.evidence.pane
    if pane is None:
        if seen.state.state in LIVE_STATES:
            raise MngrError(f"{record.name} is still starting", "try again")
        try:
            saved = host.read(os.path.join(host.home.agent_dir(record.id), "screen"))
        except NotFound:
            raise MngrError(
                f"{record.name} has no screen: it is {seen.state.state}", f"mngr start {record.name}"
            ) from None
        return ScreenCapture(id=record.id, name=record.name, live=False, text=_trim_empty_lines(saved))
    # One call, for a program may end in between; a tmux before 3.3 then scrolls by one line to say so.
    start = "-" if history is None else f"-{history + 1}"
    ask = ("display-message", "-p", "-t", pane["pane"], "#{history_size}", ";")
    result = host.run(
        tmux.build_argv(host, *ask, "capture-pane", "-p", "-e", "-S", start, "-t", pane["pane"]), timeout=30.0
    )
    if result.code:
        raise MngrError(f"the screen of {record.name} could not be read: {result.error_line}", "see: mngr list")
    above, _, shown = result.out.partition(b"\n")
    rest, _, last = shown.rstrip(b"\n").rpartition(b"\n")
    if last.startswith(b"Pane is dead"):
        shown = rest
    elif history is not None and int(above or 0) > history:
        shown = shown.partition(b"\n")[2]
    return ScreenCapture(id=record.id, name=record.name, live=True, text=_trim_empty_lines(shown))


def _trim_empty_lines(data: bytes) -> str:
    """Without the empty lines at the end."""
    return data.decode("utf-8", "replace").rstrip() + "\n"
