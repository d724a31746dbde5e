"""All commands as data. The help overview and completion read this table and import no command."""

from __future__ import annotations

# The groups of commands that `mngr help GROUP` explains, each with its heading.
HELP_SECTIONS = {
    "agents": "Create agents and talk to them",
    "work": "Look at agents and exchange work with them",
    "lifecycle": "Stop, start, copy and remove agents",
    "tests": "Run many agents, work on tests and tutorials",
    "setup": "Set up mngr and the project",
}

# name: (section, summary, module below mngr.cli).
COMMANDS: dict[str, tuple[str, str, str]] = {
    "create": ("agents", "Create an agent with its own copy of the project, and start it", "agents.create"),
    "list": ("agents", "List agents with their states", "agents.inspect.list"),
    "board": ("agents", "See which agents need you, and answer them", "agents.board"),
    "connect": ("agents", "Attach this terminal to an agent", "agents.connect"),
    "next": ("agents", "Attach to the agent that has waited for you longest", "agents.next"),
    "message": ("agents", "Send a message to an agent and confirm that it arrived", "agents.message"),
    "wait": ("agents", "Wait until agents reach a state", "agents.inspect.wait"),
    "exec": ("work", "Run a command in an agent's work dir", "agents.exec"),
    "capture": ("work", "Print an agent's screen", "agents.inspect.capture"),
    "transcript": ("work", "Print an agent's conversation", "agents.inspect.transcript"),
    "events": ("work", "Print what happened to agents", "agents.inspect.events"),
    "explain": ("work", "Explain why an agent has its state", "agents.inspect.explain"),
    "usage": ("work", "Show the tokens and the cost of agents", "agents.inspect.usage"),
    "diff": ("work", "Show an agent's changes since its base commit", "agents.inspect.diff"),
    "pull": ("work", "Fetch an agent's commits and outputs", "agents.pull"),
    "push": ("work", "Merge the current branch into an agent's branch", "agents.push"),
    "pipe": ("work", "Carry one ssh connection to an agent or a host", "hosts.pipe"),
    "ssh-config": ("work", "Print the ssh configuration that reaches every agent", "hosts.ssh_config"),
    "stop": ("lifecycle", "Stop an agent and keep its work", "agents.stop"),
    "start": ("lifecycle", "Start a stopped agent again", "agents.start"),
    "destroy": ("lifecycle", "Move an agent to the trash", "agents.destroy"),
    "undestroy": ("lifecycle", "Restore an agent from the trash", "agents.undestroy"),
    "gc": ("lifecycle", "Clean up after interrupted commands and delete expired trash", "hosts.gc"),
    "rename": ("lifecycle", "Give an agent another name", "agents.rename"),
    "label": ("lifecycle", "Set or remove labels of agents", "agents.label"),
    "clone": ("lifecycle", "Copy an agent with its work and its conversation", "agents.clone"),
    "migrate": ("lifecycle", "Move an agent to another host with all its work", "agents.migrate"),
    "limit": ("lifecycle", "Stop agents automatically when they are idle or old", "agents.limit"),
    "snapshot create": ("lifecycle", "Save an agent's whole state under a name", "agents.snapshot.create"),
    "snapshot list": ("lifecycle", "List the snapshots", "agents.snapshot.list"),
    "snapshot restore": ("lifecycle", "Create an agent from a snapshot", "agents.snapshot.restore"),
    "snapshot destroy": ("lifecycle", "Delete snapshots", "agents.snapshot.destroy"),
    "tutorial blocks": ("tests", "List the blocks of a tutorial script", "tutorial.blocks"),
    "tutorial check": ("tests", "Check that every block has a test that cites it", "tutorial.check"),
    "tutorial coverage": ("tests", "Measure which commands the tutorial shows and the tests run", "tutorial.coverage"),
    "tutorial sync": ("tests", "Let an agent write the missing tests of a tutorial", "tutorial.sync"),
    "tutorial fill": ("tests", "Let an agent propose blocks for empty headings", "tutorial.fill"),
    "tutorial init": ("tests", "Create a tutorial script and its first test", "tutorial.init"),
    "tutorial install-command": (
        "tests",
        "Install a slash command for Claude Code and Codex",
        "tutorial.install_command",
    ),
    "map": ("tests", "Run one agent for each item of a list", "runs.map"),
    "tmr run": ("tests", "Run one agent per test, verify its work, build one branch", "runs.tmr.run"),
    "tmr status": ("tests", "Show the progress of a run, with claims and verdicts", "runs.tmr.status"),
    "tmr changes": ("tests", "List the changes of a run that can be merged", "runs.tmr.changes"),
    "tmr integrate": ("tests", "Build one tested branch and the text of the pull request", "runs.tmr.integrate"),
    "tmr report": ("tests", "Write the report of a run as web pages", "runs.tmr.report"),
    "tmr list": ("tests", "List the runs of this project", "runs.tmr.list"),
    "tmr attach": ("tests", "Watch a run until it ends", "runs.tmr.attach"),
    "tmr resume": ("tests", "Continue an interrupted run, also with a larger budget", "runs.tmr.resume"),
    "tmr retry": ("tests", "Give unsuccessful tasks to new agents", "runs.tmr.retry"),
    "tmr redo": ("tests", "Ask the author of a change to revise it", "runs.tmr.redo"),
    "tmr stop": ("tests", "Stop a run and all its agents", "runs.tmr.stop"),
    "tmr verify": ("tests", "Re-run a branch's tests and detect weakened tests", "runs.tmr.verify"),
    "tmr clean": ("tests", "Move the agents of a run to the trash", "runs.tmr.clean"),
    "tmr memory": ("tests", "Show or delete what earlier runs learned", "runs.tmr.memory"),
    "e2e audit": ("tests", "Find tests that pass even if the program does nothing", "runs.e2e_audit"),
    "web": ("tests", "Show the results of e2e tests in a browser", "runs.web"),
    "demo": ("tests", "Run the whole pipeline on a sample project", "runs.demo"),
    "trust": ("setup", "Trust a project's settings, so that mngr may run its commands", "settings.trust"),
    "init": ("setup", "Inspect the project and write .mngr/settings.toml", "settings.init"),
    "config list": ("setup", "List all settings with their sources", "settings.config.list"),
    "config get": ("setup", "Print a setting", "settings.config.get"),
    "config set": ("setup", "Change a setting", "settings.config.set"),
    "config unset": ("setup", "Remove a setting", "settings.config.unset"),
    "config path": ("setup", "Print the paths of the settings files", "settings.config.path"),
    "plugin list": ("setup", "List the installed plugins", "settings.plugin_list"),
    "model-server": ("setup", "Run a scripted model server for tests", "settings.model_server"),
    "doctor": ("setup", "Check this machine, the coding agents and the project", "settings.doctor"),
    "completion": ("setup", "Print the completion script for a shell", "settings.completion"),
    "help": ("setup", "Explain a command, a group of commands or a topic", "framework.help"),
    "version": ("setup", "Print the version of mngr", "settings.version"),
}
# The commands that `mngr --help` shows; their lines and those around them fit on a terminal with 24 lines.
EVERYDAY_COMMANDS = (
    "init", "create", "list", "connect", "next", "message", "wait", "diff", "pull", "stop", "start", "destroy",
    "tmr run", "doctor",
)  # fmt: skip
# The commands that may run in the work dir of a sandboxed agent: they run no git there and no code of the project.
COMMANDS_FOR_ANY_DIRECTORY = (
    "create",  # checks its source itself, because another agent's work can be the source
    "list", "connect", "next", "message", "wait", "exec", "capture", "transcript", "events", "explain", "usage", "diff",
    "pipe", "ssh-config", "stop", "start", "destroy", "undestroy", "gc", "rename", "label", "clone", "migrate", "limit",
    "snapshot create", "snapshot list", "snapshot restore", "snapshot destroy", "config list", "config get", "config path",
    "plugin list", "model-server", "doctor", "completion", "help", "version",
)  # fmt: skip
ALIASES = {"ls": "list", "conn": "connect", "msg": "message", "rm": "destroy"}
COMMAND_GROUPS = ("snapshot", "config", "plugin", "tutorial", "tmr", "e2e")


def get_module_name(command: str) -> str:
    """Return the name of the module that declares a command."""
    return "mngr.cli." + COMMANDS[command][2]
