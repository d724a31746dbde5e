"""The keys of the board."""

from __future__ import annotations

from mngr.overview.agent_details import TABS

# Key, action, and what the key does. The order is that of the help.
KEYS = (
    ("enter", "open", "Attach to the agent (detach with Ctrl-b d to come back), or open the run"),
    ("n", "next", "Select the next agent that needs you"),
    ("m", "message", "Send a message"),
    ("a", "act('allow')", "Allow what the agent asks for"),
    ("d", "act('deny')", "Deny what the agent asks for"),
    ("p", "act('pull')", "Pull the agent's commits and outputs into this repository"),
    ("s", "act('stop')", "Stop the agent and keep its work"),
    ("S", "act('start')", "Start the agent again"),
    ("x", "destroy", "Move the agent to the trash"),
    ("u", "undo", "Restore the agents that you destroyed last"),
    ("l", "label", "Set or remove labels"),
    ("space", "mark", "Mark the agent; actions then apply to all marked agents"),
    ("asterisk", "mark_all", "Mark all agents of the list, or none"),
    ("slash", "filter", "Show only some agents, for example: state == WAITING and labels.team == red"),
    ("escape", "clear", "Remove the marks, then the filter"),
    ("v", "tab('diff')", "Show the diff"),
    *((str(number), f"tab('{tab}')", f"Show the tab {title}") for number, (tab, title) in enumerate(TABS.items(), 1)),
    ("j,down", "move(1)", "Select the next entry"),
    ("k,up", "move(-1)", "Select the previous entry"),
    ("pagedown", "move(10)", "Go down by ten entries"),
    ("pageup", "move(-10)", "Go up by ten entries"),
    ("ctrl+d", "scroll(10)", "Scroll the tab down"),
    ("ctrl+u", "scroll(-10)", "Scroll the tab up"),
    ("t", "theme", "Change between dark and light"),
    ("question_mark", "help", "Show all keys"),
    ("q", "quit", "Leave the board; the agents continue"),
)
KEY_NAMES = {
    "enter": "Enter",
    "space": "Space",
    "asterisk": "*",
    "slash": "/",
    "question_mark": "?",
    "escape": "Escape",
    "j,down": "j, Down",
    "k,up": "k, Up",
    "pagedown": "PageDown",
    "pageup": "PageUp",
    "ctrl+d": "Ctrl-d",
    "ctrl+u": "Ctrl-u",
}
FOOTER_LABELS = {
    "enter": "Attach",
    "n": "Next",
    "m": "Message",
    "a": "Allow",
    "d": "Deny",
    "p": "Pull",
    "slash": "Filter",
    "question_mark": "Keys",
    "q": "Quit",
}
