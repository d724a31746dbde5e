"""The command `mngr web`."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework.command_spec import CommandSpec, Option, place_below
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
        "The page groups agents by what they need from you, and shows the screen, the conversation, the diff, the events "
        "and the explanation of an agent. You can answer, message, pull, stop and start agents there. The page also shows "
        "the runs of the project with their reports, the end-to-end (e2e) tests with their transcripts and recordings, "
        "and the tutorial. Changes appear by themselves.\n"
        "mngr runs a web server, which only this machine can reach, until you press Ctrl-C. The URL contains a secret "
        "token. Everybody who knows the URL and can reach the server can control your agents.\n"
        "The server needs the Python packages starlette and uvicorn: pipx inject mngr starlette uvicorn. With --export, "
        "mngr writes the pages of the e2e tests and of the tutorial to files, without a server."
    ),
    options=(
        Option(
            flags=("--e2e",),
            metavar="DIR",
            default=os.path.join(".mngr", "e2e"),
            help="Read the results of e2e tests from DIR",
            complete="files",
        ),
        Option(
            flags=("--export",),
            metavar="DIR",
            help="Write the pages of e2e tests and of the tutorial to DIR instead of starting a web server",
            complete="files",
        ),
        Option(flags=("--read-only",), help="Show everything, but let nobody change anything from the page"),
        Option(flags=("--open",), help="Open the page in a browser (default: on if you run mngr in a terminal)"),
        *place_below(
            "Network",
            Option(
                flags=("--port",),
                metavar="N",
                kind="int",
                default=0,
                help="Listen on port N (default: the port that mngr web used last, or a free port)",
            ),
            Option(
                flags=("--listen",),
                metavar="ADDRESS:PORT",
                help="Listen on this address, so that other machines can reach the page (default: only this machine)",
            ),
            Option(flags=("--tls-cert",), metavar="FILE", help="Use the TLS certificate in FILE", complete="files"),
            Option(flags=("--tls-key",), metavar="FILE", help="Use the TLS key in FILE", complete="files"),
            Option(
                flags=("--insecure",),
                help="Listen on other addresses without TLS; others in the network can then read the token",
            ),
        ),
    ),
    examples=(
        ("mngr web", "Watch and steer your agents from a browser"),
        ("mngr web --read-only", "Show the agents on a screen that others can touch"),
        ("mngr web --e2e .mngr/e2e --export pages", "Write the pages of e2e tests to the directory pages"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Serve the page until a signal arrives, or write pages to files."""
    from mngr.tutorial.paths import TutorialPaths

    artifacts_dir = cli.context.resolve_path(args["e2e"])
    script = TutorialPaths(cli.context).file
    if args["export"] is not None:
        return _export_pages(cli, args, artifacts_dir, script)
    try:
        import starlette
        import uvicorn
    except ImportError:
        raise MngrError(
            "mngr web needs the Python packages starlette and uvicorn",
            "install them: pipx inject mngr starlette uvicorn",
        ) from None
    del starlette, uvicorn
    from mngr.base.paths import find_project_root
    from mngr.web.live.server import ServerOptions, check_server_options, parse_address, serve
    from mngr.web.live.site import Site

    options = ServerOptions(
        port=args["port"],
        tls_cert=_resolve(cli, args["tls_cert"]),
        tls_key=_resolve(cli, args["tls_key"]),
        is_insecure=args["insecure"],
        is_read_only=args["read_only"],
    )
    if args["listen"] is not None:
        if "port" in args.given:
            raise UsageError("--port and --listen cannot be combined", "name the port in --listen ADDRESS:PORT")
        address, port = parse_address(args["listen"])
        options = options.replace(address=address, port=port)
    check_server_options(options)
    should_open = args["open"] if "open" in args.chosen else is_interactive()

    def announce(url: str) -> None:
        print(url, flush=True)
        if should_open:
            open_page(url)

    # Requests have no terminal, so no operation may print or ask there.
    context = cli.context
    context.note = lambda text: None
    context.ask = context.ask_trust = None
    site = Site(
        cli.fleet,
        root=find_project_root(context.cwd),
        artifacts_dir=artifacts_dir,
        script=script,
        is_read_only=options.is_read_only,
    )
    try:
        serve(site, context.home, options, announce)
    except KeyboardInterrupt:
        cli.print_message("stopped")
    finally:
        site.close()
    return 0


def _resolve(cli: Cli, path: str | None) -> str | None:
    return None if path is None else cli.context.resolve_path(path)


def _export_pages(cli: Cli, args: Args, artifacts_dir: str, script: str) -> int:
    """Write the pages of e2e tests and of the tutorial to files."""
    from mngr.web.live.e2e.export import export_pages

    for option in ("port", "listen"):
        if option in args.given:
            raise UsageError(f"--{option} and --export cannot be combined", "leave out one of them")
    index_path = export_pages(artifacts_dir, cli.context.resolve_path(args["export"]), script)
    cli.print_data(index_path)
    if args["open"]:
        open_page(f"file://{index_path}")
    return 0


def open_page(url: str) -> None:
    """Open a page in the user's browser."""
    import webbrowser

    webbrowser.open(url)
