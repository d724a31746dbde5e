"""`AgentSpec`: every option of a new agent with its type, its default and its help text, declared once."""

from __future__ import annotations

from mngr.base.model import TRANSFER_MODES, Struct, describe


class AgentSpec(Struct):
    """The options of new agents. `mngr create` derives its command line from these fields."""

    address: str | None = describe(
        default=None, help="NAME, NAME@HOST or NAME@.PROVIDER (default: a generated name on this machine)"
    )
    kind: str | None = describe(
        default=None,
        help="The agent's program: claude, codex, opencode, gemini, pi, aider, player (scripted), mechanic (rule-based) "
        "or command (default: command if a command follows --, else the installed coding agent, claude first)",
    )
    command: list[str] = []  # the command to run, or the arguments of the kind's program
    message: str | None = describe(
        default=None, help="Send TEXT as the first message; create returns when the message has arrived"
    )
    source: str | None = describe(
        default=None,
        help="Copy this directory, agent or git URL instead of the current project (default: the current directory)",
    )
    settings_root: str | None = None  # the project whose settings count, if it is not the source
    runs_filters: bool = True  # False: run none of the user's git filters on the files of a mirror
    branch: str | None = describe(
        default=None,
        help="Create the branch NEW at the commit BASE; * stands for the agent's name (default: :mngr/*, at the current commit)",
    )
    transfer: str | None = describe(
        default=None,
        help="Choose how the agent gets its copy: worktree, mirror, copy, or none to use the directory itself "
        "(default: worktree; mirror on another machine or with --sandbox)",
        choices=TRANSFER_MODES,
    )
    dirty: str = describe(
        default="fail",
        help="Choose what to do with uncommitted changes: fail, ignore them, or include them in the copy (default: fail; on a terminal, ignore them with a notice)",
        choices=("fail", "ignore", "include"),
    )
    notes_ignored: bool = False  # tell the user about uncommitted changes that `ignore` leaves behind
    env: dict[str, str] = describe(default={}, help="Set the environment variable K to V for the agent")
    pass_env: list[str] = describe(
        default=[], help="Give the agent the value that the environment variable K has in your shell"
    )
    env_file: list[str] = describe(default=[], help="Set the environment variables in FILE, one K=V per line")
    labels: dict[str, str] = describe(default={}, help="Set the agent's label K to V")
    windows: dict[str, str] = describe(
        default={}, help="Open another tmux window called NAME in the agent's session, and run CMD in it"
    )
    idle_timeout: float | None = describe(
        default=None, help="Stop the agent after TIME without activity, for example 30m (default: never)"
    )
    activity: str = describe(
        default="output",
        help="Choose what counts as activity: output, input or process; separate several with commas",
    )
    resume: str | None = describe(
        default=None,
        help="Continue a copy of conversation ID, which you started in the coding agent outside mngr",
    )
    yolo: bool = describe(
        default=False,
        help="Let the coding agent act without asking for permission; needs --sandbox, a disposable host or your confirmation",
    )
    yolo_confirmed: bool = False  # allow `yolo` also outside a sandbox or a disposable host
    sandbox: bool = describe(
        default=False,
        help="Run the agent in a sandbox, where it sees only system programs and its own copy and has no network",
    )
    network: str | None = describe(
        default=None,
        help="Allow access to the whole network (on), to nothing (off), or only to the listed hosts (default: on; with --sandbox, off)",
    )
    build_args: list[str] = describe(
        default=[], help="Pass an option to the provider that creates the host; KEY+=VALUE adds to a list"
    )
    new_host: bool = describe(
        default=False, help="Create a new host with the name in ADDRESS, and fail if that host exists"
    )
    count: int = describe(default=1, help="Create N agents, named NAME-1 to NAME-N")
    agents_per_host: int | None = describe(
        default=None,
        help="With --count and NAME@.PROVIDER, put N agents on each new host (default: all agents on one host)",
    )
    reuse: bool = describe(
        default=False, help="Use the agent with this name if it exists, and start it if it is stopped"
    )
