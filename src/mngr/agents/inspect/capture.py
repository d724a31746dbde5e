"""Captures an agent's screen, or the screen that was saved when the agent was stopped."""

from __future__ import annotations

import os

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.for_each_agent import LIVE_STATES, get_record
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import Struct
from mngr.host import tmux_server


class ScreenCapture(Struct):
    """The text of a screen, with the escape sequences for its colours."""

    id: str
    name: str
    is_live: bool  # False for the screen that was saved when the agent was stopped
    text: str


def capture_screen(ctx: Context, name: str, history: int | None = 0) -> ScreenCapture:
    """Return the agent's screen with `history` lines of scrollback before it. None includes the whole scrollback."""
    observed = find.observe_agent(ctx, name)
    record = get_record(observed)
    host, pane = observed.host, observed.evidence.pane
    if pane is None:
        if observed.state.state in LIVE_STATES:
            raise MngrError(
                f"{record.name} is still starting", f"wait until it has started, then run: mngr capture {record.name}"
            )
        try:
            saved = host.read(os.path.join(host.home.agent_dir(record.id), "screen"))
        except NotFound:
            raise MngrError(
                f"{record.name} has no screen, because it is {observed.state.state}",
                f"start it: mngr start {record.name}",
            ) from None
        return ScreenCapture(id=record.id, name=record.name, is_live=False, text=_trim_empty_lines(saved))
    # One call reads both, because the program may end in between. tmux before 3.3 then adds the line "Pane is dead".
    start = "-" if history is None else f"-{history + 1}"
    size_query = ("display-message", "-p", "-t", pane["pane"], "#{history_size}", ";")
    result = host.run(
        tmux_server.build_argv(host, *size_query, "capture-pane", "-p", "-e", "-S", start, "-t", pane["pane"]),
        timeout=30.0,
    )
    if result.code:
        raise MngrError(
            f"mngr cannot read the screen of {record.name}: {result.error_line}",
            f"see its state: mngr explain {record.name}",
        )
    history_size, _, screen = result.out.partition(b"\n")
    screen_before_last, _, last_line = screen.rstrip(b"\n").rpartition(b"\n")
    if last_line.startswith(b"Pane is dead"):
        screen = screen_before_last
    elif history is not None and int(history_size or 0) > history:
        screen = screen.partition(b"\n")[2]
    return ScreenCapture(id=record.id, name=record.name, is_live=True, text=_trim_empty_lines(screen))


def _trim_empty_lines(data: bytes) -> str:
    """Return the data as text without the empty lines at its end."""
    return data.decode("utf-8", "replace").rstrip() + "\n"
