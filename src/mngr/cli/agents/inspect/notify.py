"""The command `mngr notify`."""

from __future__ import annotations

import sys

from mngr.base.errors import UsageError
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.terminal_text import join_lines, strip_controls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.notifications.notification import Notification
    from mngr.notifications.notify_settings import NotifySettings
    from mngr.notifications.outbox import Entry

COMMAND = CommandSpec(
    name="notify",
    summary=COMMANDS["notify"][1],
    description=(
        "mngr sends a notification when an agent waits for you, needs a login or has failed, and when a run has ended or "
        "has an alarm. The channels are desktop, ntfy, webhook and command; the settings [notify] configure them. A "
        "notification contains the question of the agent and the command that answers it. Without --follow and --test, "
        "mngr prints the latest notifications and whether each channel delivered them. Only one mngr notify --follow "
        "runs per home. After an interruption, the next one also sends what happened in the meantime."
    ),
    options=(
        Option(flags=("-f", "--follow"), help="Send notifications until you press Ctrl-C"),
        Option(flags=("--test",), help="Send a test notification through each channel, and print which channels work"),
        Option(
            flags=("--channel",),
            metavar="NAME",
            is_repeatable=True,
            help="Use the channel NAME: desktop, ntfy, webhook or command (default: the setting notify.channels)",
        ),
        Option(
            flags=("--filter",),
            metavar="EXPR",
            help="Send only notifications that match the expression EXPR, for example 'event == permission'; see: mngr "
            "help filters (default: the setting notify.filter)",
        ),
    ),
    examples=(
        ("mngr notify --follow --channel desktop", "Show a notification on the desktop when an agent needs you"),
        ("mngr notify --test", "Check the channels of the settings"),
        (
            "mngr notify --follow --filter 'event == permission and labels.team == red'",
            "Send only some notifications",
        ),
        ("mngr notify", "Print the latest notifications, with the channels that failed"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Follow, test or list."""
    if args["follow"] and args["test"]:
        raise UsageError("--follow and --test cannot be combined", "first run: mngr notify --test")
    if args["follow"] and cli.format == "json":
        problem = "--follow and --format json cannot be combined, because the output never ends"
        raise UsageError(problem, "run: mngr notify --follow --format jsonl")
    if not args["follow"] and not args["test"]:
        return _list_entries(cli, args)
    from mngr.notifications.notify_settings import load_notify_settings

    settings = load_notify_settings(cli.context.settings, args["channel"], args["filter"])
    return _follow(cli, settings) if args["follow"] else _test(cli, settings)


def _list_entries(cli: Cli, args: Args) -> int:
    """Print the latest notifications with the result on each channel."""
    if args.given & {"channel", "filter"}:
        raise UsageError("--channel and --filter need --follow or --test", "for example: mngr notify --follow")
    from mngr.base import json_structs
    from mngr.notifications.outbox import read_outbox

    entries = sorted(read_outbox(cli.context.home).entries.values(), key=lambda entry: entry.notification.at)
    rows = [
        {**json_structs.encode(entry.notification), "deliveries": json_structs.encode(entry.deliveries)}
        for entry in entries
    ]
    table = [[entry.notification.at, entry.notification.title, _format_results(entry)] for entry in entries]
    human = render.format_table(["AT", "NOTIFICATION", "CHANNELS"], table) if entries else ""
    render.render_rows(cli, "notifications", rows, human)
    if cli.format == "human" and not entries:
        cli.print_message("mngr has sent no notification; start with: mngr notify --follow")
    return 0


def _format_results(entry: Entry) -> str:
    """Return each channel with its result."""
    from mngr.notifications.delivery import MAX_ATTEMPTS

    parts = []
    for channel in entry.channels:
        delivery = entry.find_delivery(channel)
        if delivery is None:
            parts.append(f"{channel}: not sent yet")
        elif delivery.ok:
            parts.append(f"{channel}: sent")
        else:
            plan = "gave up" if delivery.ok is False else "will try again"
            parts.append(f"{channel}: {plan} after {delivery.attempts} of {MAX_ATTEMPTS} attempts: {delivery.details}")
    return ", ".join(parts)


def _test(cli: Cli, settings: NotifySettings) -> int:
    """Send one notification through each channel at the same time, and print the results."""
    from mngr.base.errors import MngrError
    from mngr.base.fanout import map_parallel
    from mngr.base.model import Outcome
    from mngr.base.names_and_addresses import generate_id
    from mngr.base.time_format import format_timestamp
    from mngr.notifications.delivery import make_channel, try_channel
    from mngr.notifications.notification import build_test_notification

    notification = build_test_notification(generate_id(), format_timestamp())
    outcomes: list[Outcome] = []
    results = map_parallel(lambda name: try_channel(make_channel(name, settings), notification), settings.channels)
    for name, result in zip(settings.channels, results, strict=True):
        if isinstance(result, str):
            outcomes.append(Outcome(id=None, name=name, extra={"details": result}))
        else:
            hint = result.hint if isinstance(result, MngrError) else None
            outcomes.append(
                Outcome(id=None, name=name, ok=False, error=f"{name} does not work: {result}", hint=hint, exit_code=1)
            )
    return render.render_outcomes(cli, outcomes, human=_format_test_result)


def _format_test_result(outcome: Outcome) -> str:
    return f"{outcome.name}: works ({outcome.extra['details']})"


def _follow(cli: Cli, settings: NotifySettings) -> int:
    """Send notifications until the user ends the command."""
    import signal

    from mngr.notifications.follow import HomeLock, NotificationFollower

    # Nobody may be at the terminal, so mngr asks nothing.
    cli.context.ask = cli.context.ask_trust = None
    signal.signal(signal.SIGTERM, _exit_by_signal)
    with HomeLock(cli.context.home):
        follower = NotificationFollower(cli.fleet, settings, _report_failure)
        cli.print_message(f"mngr sends notifications to: {', '.join(settings.channels)}")
        try:
            render.render_stream(cli, follower.follow(), _format_notification)
        finally:
            follower.close()
    return 0


def _exit_by_signal(number: int, frame: object) -> None:
    """End in order, so that the results of the last deliveries are saved."""
    raise SystemExit(128 + number)


def _report_failure(text: str) -> None:
    """Print a failure to standard error, also with --quiet."""
    print(strip_controls(text), file=sys.stderr, flush=True)


def _format_notification(notification: Notification) -> str:
    return f"{notification.at[:19].replace('T', ' ')}  {join_lines(notification.text)}\n"
