"""`mngr create`."""

from __future__ import annotations

from mngr.cli import render
from mngr.cli.spec import Argument, Command, Option
from mngr.cli.table import COMMANDS
from mngr.errors import UsageError
from mngr.model import TRANSFERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.parse import Args
    from mngr.cli.run import Cli

COMMAND = Command(
    name="create",
    summary=COMMANDS["create"][1],
    description=(
        "Without KIND, a command after -- is run as it is. The agent works in a git worktree of its own on the\n"
        "branch mngr/NAME, in a session of mngr's own tmux server. It sees only the variables it is given."
    ),
    arguments=(
        Argument(name="ADDRESS", help="NAME, NAME@HOST or NAME@.PROVIDER; a name is made up when missing", required=False),
        Argument(name="KIND", help="what kind of agent: command, player, …", required=False, complete="kinds"),
    ),
    options=(
        Option(flags=("-m", "--message"), metavar="TEXT", help="the first message; create returns when it has arrived"),
        Option(flags=("--message-file",), metavar="FILE", help="the first message from a file", complete="files"),
        Option(flags=("--connect",), help="attach when it runs (default: on a terminal)"),
        Option(flags=("--connect-command",), metavar="CMD", help="what to run instead of attaching; MNGR_AGENT_NAME is set"),
        Option(flags=("--from",), metavar="PATH|AGENT|URL", help="what to work on (default: this directory)", complete="files"),
        Option(flags=("--branch",), metavar="[BASE][:NEW]", help="where to start and what to call the new branch (default: :mngr/*)"),
        Option(flags=("--transfer",), metavar="MODE", help="how it gets its copy", choices=TRANSFERS),
        Option(flags=("--dirty",), metavar="HOW", help="what to do about uncommitted changes", choices=("fail", "ignore", "include")),
        Option(flags=("--env",), metavar="K=V", many=True, help="a variable for the agent"),
        Option(flags=("--pass-env",), metavar="K", many=True, help="a variable of yours to pass on"),
        Option(flags=("--env-file",), metavar="FILE", many=True, help="variables from a file of K=V lines", complete="files"),
        Option(flags=("--label",), metavar="K=V", many=True, help="a label"),
        Option(flags=("-t", "--template"), metavar="NAME", many=True, help="options from [templates.NAME]", complete="templates"),
        Option(flags=("-w", "--window"), metavar="NAME=CMD", many=True, help="one more window beside the agent"),
        Option(flags=("--idle-timeout",), metavar="TIME", kind="length", help="stop it after so long without activity"),
        Option(flags=("--count",), metavar="N", kind="int", default=1, help="make NAME-1 to NAME-N"),
        Option(flags=("--reuse",), help="take the agent that has this name, if there is one, and start it if it is stopped"),
    ),
    rest="ARGS",
    examples=(
        ("mngr create foo -- make test", "run a command in its own worktree, on branch mngr/foo"),
        ("mngr create foo --dirty include -- ./try.sh", "take uncommitted changes along"),
        ("mngr create w --count 3 --label team=red -- sleep 1000", "three at once: w-1, w-2, w-3"),
        ("mngr create foo --env-file .env -w logs='tail -f log' -- ./serve", "variables from a file, and a second window"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Make the agents, send the first message, attach."""
    from mngr.ops.create import CreateRequest

    request = CreateRequest(
        address=args["address"],
        kind=args["kind"],
        args=args.rest or [],
        source=args["from"],
        branch=args["branch"],
        transfer=args["transfer"],
        dirty=args["dirty"] or "fail",
        env=args["env"],
        pass_env=args["pass_env"],
        env_file=args["env_file"],
        labels=pairs(args["label"], "--label"),
        windows=pairs(args["window"], "--window"),
        idle_timeout=args["idle_timeout"],
        count=args["count"],
        reuse=args["reuse"],
    )
    made = cli.fleet.create_many(request)
    for m in made:
        if isinstance(m, Exception):
            raise m
        cli.out(f"{m.name} {m.state}")
    return 0


def pairs(words: list[str], flag: str) -> dict[str, str]:
    """`K=V` words as a mapping."""
    found: dict[str, str] = {}
    for word in words:
        key, eq, value = word.partition("=")
        if not eq or not key:
            raise UsageError(f"{flag}: {word!r} is not NAME=VALUE")
        found[key] = value
    return found
