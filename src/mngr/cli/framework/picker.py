"""Lets the user choose an agent with the arrow keys, or by typing part of its name."""

from __future__ import annotations

import os
import sys

from mngr.base.errors import MngrError, NotFound, UsageError
from mngr.cli.framework.run import is_interactive
from mngr.cli.framework.terminal_text import colour_state, fit_line, get_terminal_size, is_coloured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import AgentView

_KEY_PATTERN = r"\x1b[\[O].|."  # An arrow key, or one character. A terminal may send several at once.
_ARROW_MOVES = {"\x1b[A": -1, "\x1bOA": -1, "\x10": -1, "\x1b[B": 1, "\x1bOB": 1, "\x0e": 1}


def pick_agent(agents: list[AgentView]) -> str:
    """Return the id of the agent that the user chooses; raise MngrError when nothing is chosen."""
    if not is_interactive():
        raise UsageError("mngr needs a terminal to show a list of agents", "name the agent: mngr connect NAME")
    if not agents:
        raise NotFound("there are no agents", "create one: mngr create NAME claude")
    import termios
    import tty

    order = {"WAITING": 0, "RUNNING": 1, "STARTING": 1, "PARKED": 2}
    agents = sorted(agents, key=lambda agent: (order.get(agent.state, 3), agent.name))
    fd = sys.stdin.fileno()
    saved_attributes = termios.tcgetattr(fd)
    sys.stdout.write("\x1b[?25l")
    try:
        tty.setcbreak(fd)
        return _read_choice(fd, agents)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, saved_attributes)
        sys.stdout.write("\x1b[?25h\x1b[J")
        sys.stdout.flush()


def _read_choice(fd: int, agents: list[AgentView]) -> str:
    """Read keys and redraw the list until the user chooses an agent; return its id."""
    import re

    typed, selected = "", 0
    while True:
        visible = _filter_agents(agents, typed)
        selected = max(0, min(selected, len(visible) - 1))
        _draw_choices(visible, selected, typed)
        keys = os.read(fd, 1024).decode("utf-8", "replace")
        for key in re.findall(_KEY_PATTERN, keys, re.DOTALL) or [""]:
            visible = _filter_agents(agents, typed)
            if key in _ARROW_MOVES:
                selected = max(0, min(selected + _ARROW_MOVES[key], len(visible) - 1))
            elif key in ("\r", "\n") and visible:
                return visible[selected].id
            elif key in ("\x1b", "\x03", "\x04", ""):
                raise MngrError("you chose no agent", "name the agent: mngr connect NAME")
            elif key in ("\x7f", "\x08"):
                typed, selected = typed[:-1], 0
            elif key.isprintable():
                typed, selected = typed + key, 0


def _filter_agents(agents: list[AgentView], typed: str) -> list[AgentView]:
    """Return the agents whose names contain the typed text, as many as fit on the screen."""
    return [agent for agent in agents if typed in agent.name][: max(3, get_terminal_size()[1] - 3)]


def _draw_choices(visible: list[AgentView], selected: int, typed: str) -> None:
    """Draw the list of agents over the previous one and mark the selected line."""
    columns = get_terminal_size()[0] - 1  # A line that fills the terminal would wrap.
    has_colours = is_coloured(sys.stdout)
    lines = [fit_line(f"connect to: {typed}", columns)]
    for number, agent in enumerate(visible):
        mark = "\x1b[7m>\x1b[0m" if number == selected else " "
        name = fit_line(f"{agent.name:24} ", columns - 2)
        state = fit_line(agent.state, columns - 2 - len(name))
        place = fit_line(f" {agent.project} {agent.branch or ''}", columns - 2 - len(name) - len(state))
        lines.append(f"{mark} {name}{colour_state(state) if has_colours else state}{place}")
    if not visible:
        lines.append("  no agent's name contains this text")
    sys.stdout.write("\r\x1b[J" + "\r\n".join(lines) + f"\x1b[{len(lines) - 1}A\r")
    sys.stdout.flush()
