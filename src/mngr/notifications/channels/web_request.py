"""The channels `ntfy` and `webhook`: send a notification to a web server."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from mngr.notifications.channels.channel import DeliveryFailed
from mngr.notifications.channels.command import encode_notification
from mngr.notifications.notification import Notification

_RETRIED_CODES = (408, 425, 429)
_MAX_TOKEN_BYTES = 4096
_URGENT_EVENTS = ("permission", "question", "login", "alarm", "failed")


class WebhookChannel:
    """Posts the notification as JSON to a URL."""

    name = "webhook"

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._timeout = timeout

    def deliver(self, notification: Notification) -> str:
        """Post the JSON."""
        headers = {"Content-Type": "application/json", "X-Mngr-Id": notification.id}
        return post(self._url, encode_notification(notification), headers, self._timeout, "notify.webhook_url")


class NtfyChannel:
    """Posts the text to a topic of an ntfy server."""

    name = "ntfy"

    def __init__(self, url: str, token_file: str, timeout: float) -> None:
        self._url = url
        self._token_file = token_file
        self._timeout = timeout

    def deliver(self, notification: Notification) -> str:
        """Post the text. The title is ASCII because names of agents and runs are."""
        headers = {
            "Title": notification.title.encode("ascii", "replace").decode(),
            "Priority": "high" if notification.event in _URGENT_EVENTS else "default",
            "Tags": f"mngr,{notification.event}",
            "X-Mngr-Id": notification.id,
        }
        if self._token_file:
            headers["Authorization"] = f"Bearer {_read_token(self._token_file)}"
        return post(self._url, notification.text.encode(), headers, self._timeout, "notify.ntfy_server")


def _read_token(path: str) -> str:
    """Return the token in a file of the user."""
    try:
        with open(os.path.expanduser(path), encoding="ascii") as file:
            token = file.read(_MAX_TOKEN_BYTES).strip()
    except (OSError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not ASCII"
        raise DeliveryFailed(f"cannot read the token in {path}: {problem}", f"check the file: ls -l {path}") from None
    if not token.isprintable():
        raise DeliveryFailed(f"{path} does not contain a token in one line", f"check the file: wc {path}")
    return token


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float, setting: str) -> str:
    """Post a body, and return the server and its answer. The whole exchange ends within `timeout` seconds."""
    parts = urlsplit(url)
    hint = f"check the URL: mngr config get {setting}; then: mngr notify --test"
    connection = _connect(parts, timeout)
    # The timeout of a socket limits each call. A server that sends a byte now and then would take forever.
    deadline = time.monotonic() + timeout
    timer = threading.Timer(timeout, _shut_down, [connection])
    timer.daemon = True
    timer.start()
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, body, {"User-Agent": "mngr", **headers})
        code = connection.getresponse().status
    except TimeoutError:
        raise DeliveryFailed(f"{parts.hostname} did not answer within {timeout:g}s", hint) from None
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        if time.monotonic() >= deadline:
            raise DeliveryFailed(f"{parts.hostname} did not answer within {timeout:g}s", hint) from None
        problem = getattr(error, "strerror", None) or type(error).__name__
        raise DeliveryFailed(f"could not send to {parts.hostname}: {problem}", hint) from None
    finally:
        timer.cancel()
        connection.close()
    if not 200 <= code < 300:
        is_final = code < 500 and code not in _RETRIED_CODES
        raise DeliveryFailed(f"{parts.hostname} answered with HTTP status {code}", hint, is_final=is_final)
    return f"{parts.hostname} answered with HTTP status {code}"


def _connect(parts: SplitResult, timeout: float) -> http.client.HTTPConnection:
    """Return a connection that is opened by its first request."""
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, parts.port, timeout=timeout)


def _shut_down(connection: http.client.HTTPConnection) -> None:
    """End a connection that takes too long, from another thread."""
    try:
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # It has ended by itself.
