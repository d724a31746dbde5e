"""The command `mngr web`."""

from __future__ import annotations

import os

from mngr.base.errors import UsageError
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import is_interactive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="web",
    summary=COMMANDS["web"][1],
    description=(
        "The pages show each end-to-end (e2e) test with its tutorial block, its transcript and its recordings. If the "
        "project has a tutorial, the pages also show each block with the tests that cite it. mngr runs a web server, "
        "which only this machine can reach, until you press Ctrl-C. With --export, mngr writes the pages to files."
    ),
    options=(
        Option(
            flags=("--e2e",),
            metavar="DIR",
            default=os.path.join(".mngr", "e2e"),
            help="Read the test results from DIR",
            complete="files",
        ),
        Option(
            flags=("--export",),
            metavar="DIR",
            help="Write the pages to DIR instead of starting a web server",
            complete="files",
        ),
        Option(flags=("--port",), metavar="N", kind="int", default=0, help="Listen on port N (default: a free port)"),
        Option(flags=("--open",), help="Open the first page in a browser (default: on if you run mngr in a terminal)"),
    ),
    examples=(
        ("mngr web", "Show the results of this project's e2e tests"),
        ("mngr web --e2e .mngr/e2e --export pages", "Write the pages to the directory pages"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Serve the pages until a signal arrives, or write them to files."""
    from mngr.tutorial.paths import TutorialPaths

    artifacts_dir, script = cli.context.resolve_path(args["e2e"]), TutorialPaths(cli.context).file
    should_open = args["open"] if "open" in args.chosen else is_interactive() and args["export"] is None
    if args["export"] is not None:
        if "port" in args.given:
            raise UsageError("--port and --export cannot be combined", "leave out one of them")
        from mngr.web.live.export import export_pages

        index_path = export_pages(artifacts_dir, cli.context.resolve_path(args["export"]), script)
        cli.print_data(index_path)
        if should_open:
            open_page(f"file://{index_path}")
        return 0
    from mngr.web import artifacts
    from mngr.web.live.server import PageServer

    artifacts.list_runs(artifacts_dir)
    with PageServer(artifacts_dir, args["port"], script) as server:
        print(server.url, flush=True)
        if should_open:
            open_page(server.url)
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            cli.print_message("stopped")
    return 0


def open_page(url: str) -> None:
    """Open a page in the user's browser."""
    import webbrowser

    webbrowser.open(url)
