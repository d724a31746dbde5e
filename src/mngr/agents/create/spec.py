"""`AgentSpec`: every option of a new agent with its type, its default and its help text, declared once."""

from __future__ import annotations

from mngr.base.model import TRANSFER_MODES, Struct, describe


class AgentSpec(Struct):
    """The options of new agents. `mngr create` derives its command line from these fields."""

    address: str | None = describe(
        default=None,
        help="The agent's name, followed by @HOST to use another host or @.PROVIDER to create a new "
        "host (default: a generated name on this machine)",
    )
    kind: str | None = describe(
        default=None,
        help="The program that the agent runs: claude, codex, opencode, gemini, pi, aider, player (scripted), "
        "mechanic (rule-based) or command (default: command if you write a command after --; if you do not, the first "
        "installed coding agent in this list)",
    )
    command: list[str] = []  # the command to run, or the arguments of the kind's program
    message: str | None = describe(
        default=None, help="Send TEXT to the agent as its first message, and wait until the agent has received it"
    )
    source: str | None = describe(
        default=None,
        help="Copy the project from this directory, agent or git URL (default: the current directory)",
    )
    settings_root: str | None = None  # the project whose settings count, if it is not the source
    runs_filters: bool = True  # False: run none of the user's git filters on the files of a mirror
    branch: str | None = describe(
        default=None,
        help="Create the branch NEW, which starts at the commit BASE; mngr replaces * with the agent's name (default: "
        "the branch mngr/NAME, which starts at the current commit)",
    )
    transfer: str | None = describe(
        default=None,
        help="Choose the agent's copy of the project: a git worktree (worktree), a separate git repository (mirror), "
        "a copy of the files without git (copy), or your own directory (none) (default: worktree; mirror on another "
        "machine or with --sandbox)",
        choices=TRANSFER_MODES,
    )
    dirty: str = describe(
        default="fail",
        help="Choose what mngr does if you have uncommitted changes: print an error (fail), leave them out of the "
        "copy (ignore) or copy them (include) (default: ignore in a terminal, fail in scripts)",
        choices=("fail", "ignore", "include"),
    )
    notes_ignored: bool = False  # tell the user about uncommitted changes that `ignore` leaves behind
    env: dict[str, str] = describe(default={}, help="Give the agent the environment variable K with the value V")
    pass_env: list[str] = describe(
        default=[],
        help="Give the agent, but not the project's set-up, the environment variable K with the value from your shell",
    )
    private_env: list[str] = []  # names in `env` that the project's set-up must not see
    env_file: list[str] = describe(
        default=[],
        help="Give the agent, but not the project's set-up, the environment variables in FILE, which contains one K=V "
        "per line",
    )
    labels: dict[str, str] = describe(default={}, help="Set the agent's label K to V")
    windows: dict[str, str] = describe(
        default={}, help="Run the command CMD in another tmux window called NAME in the agent's session"
    )
    idle_timeout: float | None = describe(
        default=None, help="Stop the agent after TIME without activity, for example 30m (default: never)"
    )
    activity: str = describe(
        default="output",
        help="Choose what counts as activity: new text in the terminal (output), your input (input) or use of "
        "processor time (process); separate several words with commas",
    )
    resume: str | None = describe(
        default=None,
        help="Continue a copy of the conversation ID, which you started in the coding agent without mngr",
    )
    yolo: bool = describe(
        default=False,
        help="Let the coding agent act without asking you for permission; mngr requires --sandbox, a container or "
        "cloud host, or your confirmation",
    )
    yolo_confirmed: bool = False  # allow `yolo` also outside a sandbox or a disposable host
    sandbox: bool = describe(
        default=False,
        help="Run the agent in a sandbox, in which it can use system programs and its own copy of the project, but "
        "neither your other files nor the network",
    )
    network: str | None = describe(
        default=None,
        help="Allow the agent to use the whole network (on), no network (off), or only the listed network hosts "
        "(default: on; with --sandbox, off)",
    )
    build_args: list[str] = describe(
        default=[],
        help="Set the option KEY of the provider that creates the new host to VALUE; KEY+=VALUE adds VALUE to a list",
    )
    new_host: bool = describe(
        default=False, help="Create a new host with the host name in ADDRESS; if this host exists, stop with an error"
    )
    count: int = describe(default=1, help="Create N agents, named NAME-1 to NAME-N")
    agents_per_host: int | None = describe(
        default=None,
        help="Create N agents on each new host, if you use --count and NAME@.PROVIDER (default: all agents on one "
        "host)",
    )
    reuse: bool = describe(
        default=False,
        help="If an agent with this name exists, use this agent instead of creating a new one, and "
        "start it if it is stopped",
    )
