"""The model server, which runs in threads of this process on a local address."""

from __future__ import annotations

import threading
from typing import Any, Self
from urllib.parse import quote

from mngr.base.errors import MngrError
from mngr.testkit.modelserver.handler import ModelRequestHandler
from mngr.testkit.modelserver.listener import ThreadedListener
from mngr.testkit.modelserver.log import RequestLog
from mngr.testkit.modelserver.playback import Playback
from mngr.testkit.modelserver.script import parse_script


class ModelServer:
    """A scripted model that runs during a `with` block. `script` is JSON text, or the same as lists and dicts."""

    def __init__(
        self,
        script: object = (),
        *,
        listen: str = "127.0.0.1",
        port: int = 0,
        log: str | None = None,
        dump: str | None = None,
    ) -> None:
        self._playback = Playback(parse_script(list(script) if isinstance(script, tuple) else script))
        self._log = RequestLog(log, dump)
        try:
            self._server = ThreadedListener(listen, port, self._playback, self._log, ModelRequestHandler)
        except OSError as error:
            self._log.write_unanswered_and_close()
            raise MngrError(
                f"cannot listen on {listen} port {port}: {error.strerror or error}",
                "choose a free port: mngr model-server SCRIPT --port 0; or another address with --listen ADDRESS",
            ) from None
        self._listen = f"[{listen}]" if ":" in listen else listen
        self._thread = threading.Thread(target=self._server.serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server and end every answer in progress."""
        if not self._server.ended.is_set():
            self._server.stop()
            if self._thread.is_alive():
                self._thread.join()
            self._server.end_connections()
            self._server.server_close()
        self._log.write_unanswered_and_close()

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        return int(self._server.server_address[1])

    def url(self, session: str | None = None) -> str:
        """Return the address for clients, with or without a session."""
        base = f"http://{self._listen}:{self.port}"
        return base if session is None else f"{base}/s/{quote(session, safe='')}"

    def set_script(self, session: str, steps: object, *, match: str = "tools") -> None:
        """Replace the steps of a session. With match `all`, requests without tools also use up steps."""
        self._playback.set_script(session, steps, match)

    def set_named_script(self, name: str, steps: object) -> None:
        """Set the steps that `fake-script:NAME` in a prompt selects."""
        self._playback.set_named_script(name, steps)

    def reset(self, session: str | None = None) -> None:
        """Restart one session from its first step, or reset all sessions and the log in memory."""
        self._playback.reset(session)
        if session is None:
            self._log.clear()

    def list_requests(self, session: str | None = None, since: int = 0) -> list[dict[str, Any]]:
        """Return the rows of the log. A request without an answer yet has the status None."""
        return self._log.list_rows(session, since)

    def count_requests(self, session: str) -> list[int]:
        """Return how many requests each step of a session got."""
        return self._playback.count_requests(session)
