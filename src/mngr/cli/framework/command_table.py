"""All commands as data. The help overview and completion read this table and import no command."""

from __future__ import annotations

HELP_SECTIONS = ("Agents", "Work", "Life", "Tests", "Set-up")

# name: (section, summary, module below mngr.cli).
COMMANDS: dict[str, tuple[str, str, str]] = {
    "create": ("Agents", "make an agent with its own copy of the project, and start it", "agents.create"),
    "list": ("Agents", "show agents, their state and why", "agents.inspect.list"),
    "connect": ("Agents", "attach this terminal to an agent", "agents.connect"),
    "next": ("Agents", "attach to the agent that has waited longest", "agents.next"),
    "message": ("Agents", "send a message, and know that it arrived", "agents.message"),
    "wait": ("Agents", "wait until agents reach a state", "agents.inspect.wait"),
    "exec": ("Work", "run a command in an agent's work dir", "agents.exec"),
    "capture": ("Work", "print an agent's screen", "agents.inspect.capture"),
    "transcript": ("Work", "print an agent's conversation", "agents.inspect.transcript"),
    "events": ("Work", "print what happened to an agent", "agents.inspect.events"),
    "explain": ("Work", "say why an agent has the state it has", "agents.inspect.explain"),
    "usage": ("Work", "count the tokens and the cost of agents", "agents.inspect.usage"),
    "diff": ("Work", "show an agent's work since its base", "agents.inspect.diff"),
    "pull": ("Work", "bring an agent's commits and outputs here", "agents.pull"),
    "push": ("Work", "merge this branch into an agent's branch", "agents.push"),
    "pipe": ("Work", "carry one ssh connection to an agent or a host", "hosts.pipe"),
    "ssh-config": ("Work", "print ssh entries for all agents: ssh, rsync, editors", "hosts.ssh_config"),
    "stop": ("Life", "end an agent's process and keep everything", "agents.stop"),
    "start": ("Life", "bring a stopped agent back", "agents.start"),
    "destroy": ("Life", "put an agent in the trash", "agents.destroy"),
    "undestroy": ("Life", "bring an agent back from the trash", "agents.undestroy"),
    "gc": ("Life", "clean up after interrupted commands and delete expired trash", "hosts.gc"),
    "rename": ("Life", "give an agent another name", "agents.rename"),
    "label": ("Life", "set or remove an agent's labels", "agents.label"),
    "clone": ("Life", "make a second agent from an agent's whole state", "agents.clone"),
    "migrate": ("Life", "move an agent to another host with all its work", "agents.migrate"),
    "limit": ("Life", "stop an agent when it is idle or too old", "agents.limit"),
    "snapshot create": ("Life", "keep an agent's whole state under a name", "agents.snapshot.create"),
    "snapshot list": ("Life", "show the snapshots", "agents.snapshot.list"),
    "snapshot restore": ("Life", "make an agent from a snapshot", "agents.snapshot.restore"),
    "snapshot destroy": ("Life", "delete a snapshot", "agents.snapshot.destroy"),
    "tutorial blocks": (
        "Tests",
        "show the blocks of a tutorial script, and the blanks to fill",
        "tutorial.blocks",
    ),
    "tutorial check": (
        "Tests",
        "say which blocks no test cites, and which citations are out of date",
        "tutorial.check",
    ),
    "tutorial coverage": (
        "Tests",
        "say what of a program its tutorial shows and its tests run",
        "tutorial.coverage",
    ),
    "tutorial sync": (
        "Tests",
        "have an agent write the tests that are missing, and check them",
        "tutorial.sync",
    ),
    "tutorial fill": (
        "Tests",
        "have an agent propose blocks for headings that have none, each tried",
        "tutorial.fill",
    ),
    "tutorial init": ("Tests", "begin a tutorial and its tests in this project", "tutorial.init"),
    "tutorial install-command": (
        "Tests",
        "give Claude Code and Codex a slash command for it",
        "tutorial.install_command",
    ),
    "map": ("Tests", "one agent for each item of a list, governed and journaled", "runs.map"),
    "tmr run": (
        "Tests",
        "one agent for each test: repair it or make it better, and see for ourselves",
        "runs.tmr.run",
    ),
    "tmr status": ("Tests", "show how a run stands: what is claimed, and what we saw", "runs.tmr.status"),
    "tmr changes": (
        "Tests",
        "show what a run has to merge, in units that are taken or left as a whole",
        "runs.tmr.changes",
    ),
    "tmr integrate": (
        "Tests",
        "make one branch of what a run has confirmed, run it, and write the pull request",
        "runs.tmr.integrate",
    ),
    "tmr report": (
        "Tests",
        "write a run as pages: claims beside receipts, diffs, recordings, a timeline",
        "runs.tmr.report",
    ),
    "tmr list": ("Tests", "show the runs of this project", "runs.tmr.list"),
    "tmr attach": ("Tests", "watch a run as it goes on", "runs.tmr.attach"),
    "tmr resume": ("Tests", "go on with a run after a crash, or with more money or time", "runs.tmr.resume"),
    "tmr retry": (
        "Tests",
        "do tasks again that came to nothing, with a hint or by another agent",
        "runs.tmr.retry",
    ),
    "tmr redo": (
        "Tests",
        "have the agent that made a change make it otherwise, and integrate again",
        "runs.tmr.redo",
    ),
    "tmr stop": ("Tests", "stop a run and all of its agents, at once", "runs.tmr.stop"),
    "tmr verify": (
        "Tests",
        "see for ourselves: receipts for what any branch does to the tests",
        "runs.tmr.verify",
    ),
    "tmr clean": ("Tests", "put away the agents of a run", "runs.tmr.clean"),
    "tmr memory": ("Tests", "show what earlier runs found out, or forget it", "runs.tmr.memory"),
    "e2e audit": (
        "Tests",
        "find tests that would pass whatever their program did, and options nobody checks",
        "runs.e2e_audit",
    ),
    "web": ("Tests", "look at runs of tests in a browser: transcripts and recordings", "runs.web"),
    "demo": ("Tests", "see it all on a sample project: tests, agents, one branch, a report", "runs.demo"),
    "trust": ("Set-up", "allow a project's settings to run its set-up and tests", "settings.trust"),
    "init": ("Set-up", "look at the project and write .mngr/settings.toml", "settings.init"),
    "config list": ("Set-up", "show all settings and where each comes from", "settings.config.list"),
    "config get": ("Set-up", "print one setting", "settings.config.get"),
    "config set": ("Set-up", "write a setting", "settings.config.set"),
    "config unset": ("Set-up", "remove a setting", "settings.config.unset"),
    "config path": ("Set-up", "print where the settings files are", "settings.config.path"),
    "plugin list": ("Set-up", "show the installed plugins and what they add", "settings.plugin_list"),
    "model-server": ("Set-up", "play a scripted model to real agents, for tests", "settings.model_server"),
    "doctor": ("Set-up", "check what this machine has and name what is missing", "settings.doctor"),
    "completion": ("Set-up", "print the completion script of a shell", "settings.completion"),
    "help": ("Set-up", "explain a command or a topic", "framework.help"),
    "version": ("Set-up", "print the version", "settings.version"),
}
ALIASES = {"ls": "list", "conn": "connect", "msg": "message", "rm": "destroy"}
COMMAND_GROUPS = ("snapshot", "config", "plugin", "tutorial", "tmr", "e2e")


def get_module_name(command: str) -> str:
    """Return the name of the module that declares a command."""
    return "mngr.cli." + COMMANDS[command][2]
