"""Every command, as data: the group's help and completion are read from here and import nothing else."""

from __future__ import annotations

SECTIONS = ("Agents", "Work", "Life", "Tests", "Set-up")

# name: (section, summary). The module is mngr.cli.NAME with the space or dash of a two-word name as _.
COMMANDS: dict[str, tuple[str, str]] = {
    "create": ("Agents", "make an agent with its own copy of the project, and start it"),
    "list": ("Agents", "show agents, their state and why"),
    "connect": ("Agents", "attach this terminal to an agent"),
    "next": ("Agents", "attach to the agent that has waited longest"),
    "message": ("Agents", "send a message, and know that it arrived"),
    "wait": ("Agents", "wait until agents reach a state"),
    "exec": ("Work", "run a command in an agent's work dir"),
    "capture": ("Work", "print an agent's screen"),
    "transcript": ("Work", "print an agent's conversation"),
    "events": ("Work", "print what happened to an agent"),
    "explain": ("Work", "say why an agent has the state it has"),
    "usage": ("Work", "count the tokens and the cost of agents"),
    "diff": ("Work", "show an agent's work since its base"),
    "pull": ("Work", "bring an agent's commits and outputs here"),
    "push": ("Work", "merge this branch into an agent's branch"),
    "pipe": ("Work", "carry one ssh connection to an agent or a host"),
    "ssh-config": ("Work", "print ssh entries for all agents: ssh, rsync, editors"),
    "stop": ("Life", "end an agent's process and keep everything"),
    "start": ("Life", "bring a stopped agent back"),
    "destroy": ("Life", "put an agent in the graveyard"),
    "undestroy": ("Life", "bring an agent back from the graveyard"),
    "gc": ("Life", "clean up what interrupted commands and old graves left"),
    "rename": ("Life", "give an agent another name"),
    "label": ("Life", "set or remove an agent's labels"),
    "clone": ("Life", "make a second agent from an agent's whole state"),
    "migrate": ("Life", "move an agent to another host with all its work"),
    "limit": ("Life", "stop an agent when it is idle or too old"),
    "snapshot create": ("Life", "keep an agent's whole state under a name"),
    "snapshot list": ("Life", "show the snapshots"),
    "snapshot restore": ("Life", "make an agent from a snapshot"),
    "snapshot destroy": ("Life", "delete a snapshot"),
    "tutorial blocks": ("Tests", "show the blocks of a tutorial script, and the blanks to fill"),
    "tutorial check": ("Tests", "say which blocks no test cites, and which citations are out of date"),
    "tutorial coverage": ("Tests", "say what of a program its tutorial shows and its tests run"),
    "tutorial sync": ("Tests", "have an agent write the tests that are missing, and check them"),
    "tutorial fill": ("Tests", "have an agent propose blocks for headings that have none, each tried"),
    "tutorial init": ("Tests", "begin a tutorial and its tests in this project"),
    "tutorial install-command": ("Tests", "give Claude Code and Codex a slash command for it"),
    "map": ("Tests", "one agent for each item of a list, governed and journaled"),
    "tmr run": ("Tests", "one agent for each test: repair it or make it better, and see for ourselves"),
    "tmr status": ("Tests", "show how a run stands: what is claimed, and what we saw"),
    "tmr changes": ("Tests", "show what a run has to merge, in units that are taken or left as a whole"),
    "tmr integrate": (
        "Tests",
        "make one branch of what a run has confirmed, run it, and write the pull request",
    ),
    "tmr report": ("Tests", "write a run as pages: claims beside receipts, diffs, recordings, a timeline"),
    "tmr list": ("Tests", "show the runs of this project"),
    "tmr attach": ("Tests", "watch a run as it goes on"),
    "tmr resume": ("Tests", "go on with a run after a crash, or with more money or time"),
    "tmr retry": ("Tests", "do tasks again that came to nothing, with a hint or by another agent"),
    "tmr redo": ("Tests", "have the agent that made a change make it otherwise, and integrate again"),
    "tmr stop": ("Tests", "stop a run and all of its agents, at once"),
    "tmr verify": ("Tests", "see for ourselves: receipts for what any branch does to the tests"),
    "tmr clean": ("Tests", "put away the agents of a run"),
    "tmr memory": ("Tests", "show what earlier runs found out, or forget it"),
    "e2e audit": (
        "Tests",
        "find tests that would pass whatever their program did, and options nobody checks",
    ),
    "web": ("Tests", "look at runs of tests in a browser: transcripts and recordings"),
    "demo": ("Tests", "see it all on a sample project: tests, agents, one branch, a report"),
    "init": ("Set-up", "look at the project and write .mngr/settings.toml"),
    "config list": ("Set-up", "show all settings and where each comes from"),
    "config get": ("Set-up", "print one setting"),
    "config set": ("Set-up", "write a setting"),
    "config unset": ("Set-up", "remove a setting"),
    "config path": ("Set-up", "print where the settings files are"),
    "plugin list": ("Set-up", "show the installed plugins and what they add"),
    "model-server": ("Set-up", "play a scripted model to real agents, for tests"),
    "doctor": ("Set-up", "check what this machine has and name what is missing"),
    "completion": ("Set-up", "print the completion script of a shell"),
    "help": ("Set-up", "explain a command or a topic"),
    "version": ("Set-up", "print the version"),
}
ALIASES = {"ls": "list", "conn": "connect", "msg": "message", "rm": "destroy"}
GROUPS = ("snapshot", "config", "plugin", "tutorial", "tmr", "e2e")


def module_name(command: str) -> str:
    """The module that declares a command."""
    return "mngr.cli." + command.replace(" ", "_").replace("-", "_")
