"""The channel `command`: runs the user's own command for each notification."""

from __future__ import annotations

import json
import os
import tempfile
from typing import IO

from mngr.base import json_structs, shell
from mngr.base.errors import MngrError
from mngr.notifications.channels.channel import DeliveryFailed
from mngr.notifications.notification import Notification
from mngr.tmr.commits.clean_untrusted_text import clean_line

_MAX_LINE_BYTES = 4096
_HINT = "check the command: mngr config get notify.command; then: mngr notify --test --channel command"


def build_argv(command: str, notification: Notification) -> list[str]:
    """Return the argument vector. The shell reads only the user's command; the text arrives as its first argument."""
    return ["sh", "-c", command, "mngr-notify", notification.text]


def build_variables(notification: Notification) -> dict[str, str]:
    """Return the environment of the command. A variable is never part of the shell's program."""
    return {
        **os.environ,
        "MNGR_EVENT": notification.event,
        "MNGR_TEXT": notification.text,
        "MNGR_TITLE": notification.title,
        "MNGR_NAME": notification.name,
        "MNGR_QUESTION": notification.question,
        "MNGR_COMMAND": notification.commands[0] if notification.commands else "",
        "MNGR_NOTIFICATION_ID": notification.id,
    }


def encode_notification(notification: Notification) -> bytes:
    """Return the notification as one line of JSON."""
    return json.dumps(json_structs.encode(notification), ensure_ascii=False).encode() + b"\n"


def start_command(command: str, notification: Notification) -> None:
    """Start the command for a notification, and do not wait for it."""
    with tempfile.TemporaryFile() as file:
        file.write(encode_notification(notification))
        file.seek(0)
        shell.start_process(build_argv(command, notification), env=build_variables(notification), stdin=file)


class CommandChannel:
    """Runs a shell command. It counts as delivered when the command exits with code 0 in time."""

    name = "command"

    def __init__(self, command: str, timeout: float) -> None:
        self._command = command
        self._timeout = timeout

    def deliver(self, notification: Notification) -> str:
        """Run the command."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.write(encode_notification(notification))
            stdin.seek(0)
            try:
                process = shell.start_process(
                    build_argv(self._command, notification),
                    stdin=stdin,
                    stdout=shell.DEVNULL,
                    stderr=stderr,
                    env=build_variables(notification),
                    new_session=True,
                )
            except MngrError as error:
                raise DeliveryFailed(clean_line(error.message), _HINT) from None
            code = shell.wait_or_kill_group(process, self._timeout)
            if code is None:
                raise DeliveryFailed(f"the command did not end within {self._timeout:g}s", _HINT)
            if code != 0:
                reason = _read_last_line(stderr)
                raise DeliveryFailed(f"the command exited with code {code}" + (f": {reason}" if reason else ""), _HINT)
        return "the command exited with code 0"


def _read_last_line(file: IO[bytes]) -> str:
    """Return the last line that the command wrote to standard error."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_LINE_BYTES))
    return clean_line(file.read().decode("utf-8", "replace").strip().rpartition("\n")[2])
