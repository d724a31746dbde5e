"""Reads the settings `[notify]`, and checks them before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from mngr.agents.inspect.filter import compile_filter
from mngr.base.config import Settings
from mngr.base.errors import MngrError, UsageError, suggest_closest
from mngr.base.model import Struct
from mngr.base.time_format import parse_duration
from mngr.notifications.notification import DEFAULT_FILTER, Notification

DESKTOP, NTFY, WEBHOOK, COMMAND = CHANNELS = ("desktop", "ntfy", "webhook", "command")
_DEFAULT_NTFY_SERVER = "https://ntfy.sh"
_DEFAULT_TIMEOUT, _DEFAULT_MAX_AGE = "10s", "1d"
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")


class NotifySettings(Struct):
    """The checked settings of notifications."""

    channels: tuple[str, ...]
    filter: str
    ntfy_url: str = ""  # with the topic
    ntfy_token_file: str = ""
    webhook_url: str = ""
    command: str = ""
    timeout: float
    max_age: float


def load_notify_settings(settings: Settings, channels: list[str], filter_text: str | None) -> NotifySettings:
    """Return the settings. The channels and the filter of the command line replace those of the settings."""
    names = _choose_channels(settings, channels)
    if filter_text is None:
        filter_text = settings.get("notify.filter")
        _check_filter_setting(filter_text)
    else:
        compile_notification_filter(filter_text)
    return NotifySettings(
        channels=names,
        filter=filter_text or DEFAULT_FILTER,
        ntfy_url=_build_ntfy_url(settings) if NTFY in names else "",
        ntfy_token_file=str(settings.get("notify.ntfy_token_file") or ""),
        webhook_url=_get_webhook_url(settings) if WEBHOOK in names else "",
        command=_get_command(settings) if COMMAND in names else "",
        timeout=parse_duration(str(settings.get("notify.timeout", _DEFAULT_TIMEOUT))),
        max_age=parse_duration(str(settings.get("notify.max_age", _DEFAULT_MAX_AGE))),
    )


def _choose_channels(settings: Settings, given: list[str]) -> tuple[str, ...]:
    """Return the channels without repeats. Raise UsageError for a wrong option, and MngrError for a wrong setting."""
    names = [str(name) for name in given or settings.get("notify.channels", [])]
    for name in names:
        if name not in CHANNELS:
            known = ", ".join(CHANNELS)
            if given:
                hint = suggest_closest(name, CHANNELS) or f"use one of: {known}; for example: --channel desktop"
                raise UsageError(f"--channel: there is no channel {name!r}", hint)
            raise MngrError(
                f"notify.channels: there is no channel {name!r}; the channels are {known}",
                "for example: mngr config set notify.channels '[\"desktop\"]'",
            )
    if not names:
        raise MngrError(
            "no channel for notifications is configured",
            "for example: mngr config set notify.channels '[\"desktop\"]'; or for once: mngr notify --follow --channel desktop",
        )
    return tuple(dict.fromkeys(names))


def compile_notification_filter(text: str) -> Callable[[Mapping[str, object]], bool]:
    """Return a predicate for notifications in their JSON form. Raise UsageError for text that is not a filter."""
    return compile_filter(text, Notification._fields)


def _check_filter_setting(text: str | None) -> None:
    """Raise MngrError if the filter in the settings is not valid."""
    try:
        compile_notification_filter(text or DEFAULT_FILTER)
    except UsageError as error:
        problem = error.message.removeprefix("--filter").lstrip(": ")
        raise MngrError(
            f"notify.filter is not valid: {problem}", "for example: mngr config set notify.filter 'event == permission'"
        ) from None


def _build_ntfy_url(settings: Settings) -> str:
    """Return the URL of the topic."""
    topic = str(settings.get("notify.ntfy_topic") or "")
    if not topic:
        raise MngrError(
            "the channel ntfy needs a topic",
            "for example: mngr config set notify.ntfy_topic TOPIC, with a name that nobody guesses",
        )
    if not _TOPIC.fullmatch(topic):
        raise MngrError(
            f"notify.ntfy_topic cannot be {topic!r}: a topic has at most 64 of the characters A-Z a-z 0-9 _ -",
            "for example: mngr config set notify.ntfy_topic my-agents-4711",
        )
    server = str(settings.get("notify.ntfy_server") or _DEFAULT_NTFY_SERVER)
    _check_url("notify.ntfy_server", server, _DEFAULT_NTFY_SERVER)
    return f"{server.rstrip('/')}/{topic}"


def _get_webhook_url(settings: Settings) -> str:
    url = str(settings.get("notify.webhook_url") or "")
    example = "https://example.com/hook"
    if not url:
        raise MngrError("the channel webhook needs a URL", f"for example: mngr config set notify.webhook_url {example}")
    _check_url("notify.webhook_url", url, example)
    return url


def _get_command(settings: Settings) -> str:
    command = str(settings.get("notify.command") or "")
    if not command.strip():
        raise MngrError(
            "the channel command needs a command",
            "for example: mngr config set notify.command 'echo \"$1\" >>~/notifications.log'",
        )
    return command


def _check_url(key: str, url: str, example: str) -> None:
    """Raise MngrError unless the text is the URL of a web server."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_valid = is_valid and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        is_valid = False
    if not is_valid:
        raise MngrError(
            f"{key} is not the URL of a web server: {url!r}", f"for example: mngr config set {key} {example}"
        )
