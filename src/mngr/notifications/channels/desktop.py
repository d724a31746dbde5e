"""The channel `desktop`: a program of the desktop, or else a sequence that the terminal turns into a notification."""

from __future__ import annotations

import os
import shutil
import sys

from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.notifications.channels.channel import DeliveryFailed
from mngr.notifications.notification import Notification
from mngr.tmr.commits.clean_untrusted_text import clean_line

_HINT = "install a program for notifications: apt-get install libnotify-bin; or run in a terminal: mngr notify --follow"
_MAX_OUTPUT_BYTES = 64 * 1024


class DesktopChannel:
    """Tries `notify-send`, then `terminal-notifier`, then the terminal."""

    name = "desktop"

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    def deliver(self, notification: Notification) -> str:
        """Show the notification in the first way that works."""
        body = notification.text.removeprefix(notification.title).lstrip(": |")
        problems = []
        for argv in (
            ["notify-send", "--app-name=mngr", "--", notification.title, _escape_markup(body)],
            ["terminal-notifier", "-title", notification.title, "-message", body, "-group", notification.id],
        ):
            if shutil.which(argv[0]) is None:
                continue
            try:
                result = shell.run(argv, timeout=self._timeout, max_bytes=_MAX_OUTPUT_BYTES)
            except MngrError as error:
                problems.append(error.message)
                continue
            if result.code == 0:
                return f"shown by {argv[0]}"
            problems.append(f"{argv[0]}: {clean_line(result.error_line)}")
        if write_to_terminal(notification):
            return "sent to this terminal, if it supports notifications"
        problem = "; ".join(problems) or "there is no notify-send, no terminal-notifier and no terminal"
        raise DeliveryFailed(f"no way to show a notification works: {problem}", _HINT)


def _escape_markup(text: str) -> str:
    """Return the text for a desktop that reads the body as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def write_to_terminal(notification: Notification) -> bool:
    """Write the sequence for a notification to the terminal of standard error. Return False without a terminal."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        os.write(sys.stderr.fileno(), build_terminal_sequence(notification, dict(os.environ)).encode())
    except OSError:
        return False
    return True


def build_terminal_sequence(notification: Notification, environ: dict[str, str]) -> str:
    """Return OSC 9 for iTerm2 and OSC 777 for other terminals. tmux must pass it on (`allow-passthrough on`)."""
    is_iterm = "iTerm" in environ.get("TERM_PROGRAM", "") + environ.get("LC_TERMINAL", "")
    if is_iterm:
        sequence = f"\x1b]9;{notification.text}\x07"
    else:
        body = notification.text.removeprefix(notification.title).lstrip(": |")
        sequence = f"\x1b]777;notify;{notification.title.replace(';', ',')};{body}\x07"
    return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\" if environ.get("TMUX") else sequence
