"""The command `mngr tmr memory`."""

from __future__ import annotations

from mngr.base.errors import NotFound, UsageError, suggest_closest
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import get_project_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="tmr memory",
    summary=COMMANDS["tmr memory"][1],
    description=(
        "The actions are:\n"
        "  list     print confirmed tests; a run skips a test until the test, its\n"
        "           conftest files, the tutorial or the code under test change\n"
        "  flaky    print tests that both passed and failed without a change\n"
        "  reasons  print why people excluded changes; later agents get this list\n"
        "  forget   delete entries, so that the next runs work on these tests again"
    ),
    arguments=(
        Argument(name="ACTION", help="The action: list, flaky, reasons or forget (default: list)", required=False),
        Argument(
            name="NAME",
            help="The tests, or with reasons the changes, to print or delete (default: all)",
            is_repeatable=True,
            required=False,
        ),
    ),
    examples=(
        ("mngr tmr memory list", "Print the confirmed tests"),
        ("mngr tmr memory reasons", "Print why people excluded changes"),
        ("mngr tmr memory forget", "Delete all entries"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Show or delete the knowledge from earlier runs."""
    action = args["action"] or "list"
    if action not in _ACTIONS:
        raise UsageError(
            f"mngr tmr memory has no action {action!r}",
            suggest_closest(action, list(_ACTIONS)) or "use one of: list, flaky, reasons, forget",
        )
    return _ACTIONS[action](cli, args["name"] or [])


def _list_known(cli: Cli, tests: list[str]) -> int:
    from mngr.tmr.prepare.history.earlier_results import RunHistory

    entries = [
        entry
        for entry in RunHistory(cli.context.home, get_project_root(cli)).tests.values()
        if not tests or entry.test in tests
    ]
    lines = [(entry.outcome, entry.verdict or "-", entry.run, entry.test) for entry in entries]
    human = render.format_table(("OUTCOME", "VERDICT", "RUN", "TEST"), lines) if lines else "no results of earlier runs"
    render.render_rows(cli, "tests", [entry.to_dict() for entry in entries], human)
    return 0


def _list_flaky(cli: Cli, tests: list[str]) -> int:
    from mngr.tmr.prepare.history.flaky_list import FlakyTestFile

    entries = [
        entry
        for entry in FlakyTestFile(cli.context.home, get_project_root(cli)).read().values()
        if not tests or entry.test in tests
    ]
    lines = [
        (f"{entry.rate:.0%} of {entry.runs}", entry.first_seen, ", ".join(entry.suspects) or "-", entry.test)
        for entry in entries
    ]
    human = (
        render.format_table(("FAILED", "FIRST SEEN", "SUSPECTS", "TEST"), lines) if lines else "no flaky tests known"
    )
    render.render_rows(cli, "tests", [{**entry.to_dict(), "rate": round(entry.rate, 3)} for entry in entries], human)
    return 0


def _list_reasons(cli: Cli, names: list[str]) -> int:
    from mngr.tmr.changes.rejection_reasons import RejectionFile

    entries = sorted(RejectionFile(cli.context.home, get_project_root(cli)).read().values(), key=lambda entry: entry.at)
    entries = [
        entry
        for entry in entries
        if not names or any(entry.change.startswith(name) or name in entry.tests for name in names)
    ]
    lines = [
        (
            entry.change[:6],
            entry.run,
            terminal_text.fit_line(entry.reason, 80),
            terminal_text.fit_line(entry.title, 80),
        )
        for entry in entries
    ]
    human = render.format_table(("CHANGE", "RUN", "REASON", "TITLE"), lines) if lines else "no reasons recorded"
    render.render_rows(cli, "reasons", [entry.to_dict() for entry in entries], human)
    return 0


def _forget_entries(cli: Cli, names: list[str]) -> int:
    """Delete the named entries, or all of them; raise NotFound for a name that is unknown or ambiguous."""
    from mngr.tmr.changes.rejection_reasons import RejectionFile
    from mngr.tmr.prepare.history.earlier_results import RunHistory
    from mngr.tmr.prepare.history.flaky_list import FlakyTestFile

    history, flaky, reasons = (
        file_class(cli.context.home, get_project_root(cli)) for file_class in (RunHistory, FlakyTestFile, RejectionFile)
    )
    known = {*history.read(), *flaky.read()}
    keys = {name: _match_keys(list(reasons.read()), name) for name in names if name not in known}
    for name, matches in keys.items():
        if len(matches) != 1:
            hint = (
                suggest_closest(name, sorted(known))
                or "list the entries: mngr tmr memory list; mngr tmr memory reasons"
            )
            raise NotFound(
                f"mngr has no stored result or reason for {name}"
                if not matches
                else f"{len(matches)} change ids begin with {name}",
                hint if not matches else "give more digits of the change's id",
            )
    changes = [matches[0] for matches in keys.values()]
    forgotten_tests = list(dict.fromkeys([*history.delete_rows(names or None), *flaky.delete_rows(names or None)]))
    forgotten_changes = reasons.delete_rows(changes if names else None)
    rows = [{"test": test, "change": None} for test in forgotten_tests] + [
        {"test": None, "change": key} for key in forgotten_changes
    ]
    render.render_rows(cli, "tests", rows, f"forgot {len(rows)} {'entry' if len(rows) == 1 else 'entries'}")
    return 0


def _match_keys(known: list[str], name: str) -> list[str]:
    """Return the changes whose ids begin with a name of at least 6 digits."""
    return [key for key in known if len(name) >= 6 and key.startswith(name)]


_ACTIONS = {"list": _list_known, "flaky": _list_flaky, "reasons": _list_reasons, "forget": _forget_entries}
