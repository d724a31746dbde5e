"""Choose an agent with the arrow keys, or by typing part of its name."""

from __future__ import annotations

import os
import sys

from mngr.cli.render import clean, colour_state
from mngr.cli.run import is_terminal
from mngr.errors import MngrError, NotFound, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.model import AgentView

_KEYS = {"\x1b[A": "up", "\x1bOA": "up", "\x10": "up", "\x1b[B": "down", "\x1bOB": "down", "\x0e": "down"}


def pick(agents: list[AgentView]) -> str:
    """The id of the agent the user chose; MngrError when nothing was chosen."""
    if not is_terminal():
        raise UsageError("which agent? there is no terminal to choose on", "name one: mngr connect NAME")
    if not agents:
        raise NotFound("there are no agents", "make one: mngr create NAME -- COMMAND")
    import termios
    import tty

    order = {"WAITING": 0, "RUNNING": 1, "STARTING": 1, "PARKED": 2}
    agents = sorted(agents, key=lambda a: (order.get(a.state, 3), a.name))
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    sys.stdout.write("\x1b[?25l")
    try:
        tty.setcbreak(fd)
        return _choose(fd, agents)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
        sys.stdout.write("\x1b[?25h\x1b[J")
        sys.stdout.flush()


def _choose(fd: int, agents: list[AgentView]) -> str:
    typed, at = "", 0
    while True:
        shown = [a for a in agents if typed in a.name][: max(3, os.get_terminal_size().lines - 3)]
        at = max(0, min(at, len(shown) - 1))
        _draw(shown, at, typed)
        key = os.read(fd, 32).decode("utf-8", "replace")
        move = _KEYS.get(key)
        if move:
            at += 1 if move == "down" else -1
        elif key in ("\r", "\n") and shown:
            return shown[at].id
        elif key in ("\x1b", "\x03", "\x04", ""):
            raise MngrError("nothing was chosen", "mngr connect NAME")
        elif key in ("\x7f", "\x08"):
            typed = typed[:-1]
        elif key.isprintable():
            typed, at = typed + key, 0


def _draw(shown: list[AgentView], at: int, typed: str) -> None:
    lines = [f"connect to: {clean(typed)}"]
    for number, agent in enumerate(shown):
        mark = "\x1b[7m>\x1b[0m" if number == at else " "
        lines.append(
            f"{mark} {agent.name:24} {colour_state(agent.state)} {clean(agent.project)} {clean(agent.branch or '')}"
        )
    if not shown:
        lines.append("  no agent has that in its name")
    sys.stdout.write("\r\x1b[J" + "\r\n".join(lines) + f"\x1b[{len(lines) - 1}A\r")
    sys.stdout.flush()
