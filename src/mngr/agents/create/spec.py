"""`AgentSpec`: every option of a new agent with its type, its default and its help text, declared once."""

from __future__ import annotations

from mngr.base.model import TRANSFER_MODES, Struct, describe


class AgentSpec(Struct):
    """The options of new agents. `mngr create` derives its command line from these fields."""

    address: str | None = describe(
        default=None, help="NAME, NAME@HOST or NAME@.PROVIDER; a name is made up when missing"
    )
    kind: str | None = describe(default=None, help="what kind of agent: command, player, …")
    command: list[str] = []  # the command to run, or the arguments of the kind's program
    message: str | None = describe(default=None, help="the first message; create returns when it has arrived")
    source: str | None = describe(default=None, help="what to work on (default: this directory)")
    settings_root: str | None = None  # the project whose settings count, if it is not the source
    branch: str | None = describe(
        default=None, help="where to start and what to call the new branch (default: :mngr/*)"
    )
    transfer: str | None = describe(default=None, help="how it gets its copy", choices=TRANSFER_MODES)
    dirty: str = describe(
        default="fail", help="what to do about uncommitted changes", choices=("fail", "ignore", "include")
    )
    notes_ignored: bool = False  # tell the user about uncommitted changes that `ignore` leaves behind
    env: dict[str, str] = describe(default={}, help="a variable for the agent")
    pass_env: list[str] = describe(default=[], help="a variable of yours to pass on")
    env_file: list[str] = describe(default=[], help="variables from a file of K=V lines")
    labels: dict[str, str] = describe(default={}, help="a label")
    windows: dict[str, str] = describe(default={}, help="one more window beside the agent")
    idle_timeout: float | None = describe(default=None, help="stop it after so long without activity")
    activity: str = describe(
        default="output", help="what keeps it from being idle: output, input, process; several with commas"
    )
    resume: str | None = describe(
        default=None,
        help="go on with a conversation of the program's that was begun outside; that one stays as it is",
    )
    yolo: bool = describe(
        default=False,
        help="let a coding agent do everything without asking; where nothing but its own host is at stake",
    )
    yolo_confirmed: bool = False  # allow `yolo` also outside a sandbox or a disposable host
    sandbox: bool = describe(
        default=False,
        help="run it in a sandbox: it sees the system's programs and its own copy, and has no network unless --network allows it",
    )
    network: str | None = describe(default=None, help="what it may connect to (default: on; off with --sandbox)")
    build_args: list[str] = describe(default=[], help="set an option of the provider for a new host; += adds to a list")
    new_host: bool = describe(default=False, help="fail when the host is there already, instead of using it")
    count: int = describe(default=1, help="make NAME-1 to NAME-N")
    agents_per_host: int | None = describe(
        default=None, help="with --count and NAME@.PROVIDER: so many on each new host (default: all on one)"
    )
    reuse: bool = describe(
        default=False, help="take the agent that has this name, if there is one, and start it if it is stopped"
    )
