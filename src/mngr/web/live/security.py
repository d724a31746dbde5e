"""Admits only requests that come from the person's own browser, and tells the browser to run only mngr's scripts."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mngr.base.model import Struct

TOKEN_PARAMETER = "token"
TOKEN_HEADER = "x-mngr-token"
_SAFE_METHODS = ("GET", "HEAD")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253})(?::[0-9]{1,5})?")
_COMMON_POLICY = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# Only mngr's own files may run or style a page.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    f"connect-src 'self'; {_COMMON_POLICY}"
)
# The player of recordings runs WebAssembly in a worker. Pages with recordings, and reports, send nothing anywhere.
RECORDING_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src data:; "
    f"font-src data:; worker-src blob:; connect-src data:; {_COMMON_POLICY}"
)
_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Access(Struct):
    """Who may use the page. `token` is the secret in the URL that mngr prints."""

    token: str
    host_names: tuple[str, ...] = ()  # names, besides localhost and all addresses, by which the browser may call
    is_secure: bool = False  # True with TLS
    is_read_only: bool = False

    @property
    def cookie(self) -> str:
        """Return the value of the cookie. It shows pages, but the token cannot be computed from it."""
        return hmac.new(self.token.encode(), b"cookie", hashlib.sha256).hexdigest()


class AccessCheck:
    """Rejects every request without the cookie, from another site, or for another host name.

    A request that changes something also needs the token in a header. Another site can make a browser send a cookie, but
    never this header. Another web server of this machine gets the cookie too, because browsers ignore the port, but not
    the token, which only the page's own script keeps.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or let the application answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._reject(scope) or self._accept_token(scope)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _reject(self, scope: Scope) -> Response | None:
        """Return the answer to a request that another site may have sent."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not is_allowed_host(hosts[0], self._access.host_names):
            return _refuse(403, "this server answers only requests to its own address")
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{scope['scheme']}://{hosts[0]}".lower():
            return _refuse(403, "this server answers no requests from other sites")
        # A page of another port of this machine counts as the same site, and its browser sends the cookie.
        is_navigation = headers.get("sec-fetch-mode") == "navigate" and scope["method"] in _SAFE_METHODS
        if not is_navigation and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _refuse(403, "this server answers no requests from other sites")
        if scope["method"] not in _SAFE_METHODS:
            return self._reject_change(headers)
        return None

    def _reject_change(self, headers: Headers) -> Response | None:
        """Return the answer to a change that the person did not request."""
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _refuse(403, "this server answers no requests from other sites")
        if not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self._access.token.encode()):
            return _refuse(403, "the request has no valid token")
        if self._access.is_read_only:
            return _refuse(403, "this page is read-only, because mngr web runs with --read-only")
        return None

    def _accept_token(self, scope: Scope) -> Response | None:
        """Return the answer to a request without a valid cookie. A valid token in the URL becomes the cookie.

        The redirect removes the token from the URL's query. The page's script takes it from the fragment, which is never
        sent to a server, and removes it there too.
        """
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get(TOKEN_PARAMETER)
        if given is not None and scope["method"] in _SAFE_METHODS:
            if not hmac.compare_digest(given.encode(), self._access.token.encode()):
                return _refuse(403, "the token in the URL is not valid; open the URL that mngr web prints")
            rest = urlencode([(name, value) for name, value in query if name != TOKEN_PARAMETER])
            path = "/" + scope["path"].lstrip("/\\")
            target = f"{path}{f'?{rest}' if rest else ''}#{TOKEN_PARAMETER}={given}"
            answer = RedirectResponse(target, 303)
            answer.set_cookie(
                get_cookie_name(scope),
                self._access.cookie,
                httponly=True,
                samesite="strict",
                secure=self._access.is_secure,
                path="/",
            )
            return answer
        if not hmac.compare_digest(_read_cookie(scope), self._access.cookie.encode()):
            return _refuse(401, "open the URL that mngr web prints; it contains a token")
        return None


def is_allowed_host(host: str, names: tuple[str, ...]) -> bool:
    """True for addresses, localhost and the given names.

    A site of another name that resolves to this machine must not read the pages. An address cannot be rebound.
    """
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].lower()
    if name == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def get_cookie_name(scope: Scope) -> str:
    """Return the name of the cookie. It contains the port, because servers on other ports share the browser's cookies."""
    server = scope.get("server")
    return f"mngr-{server[1] if server else 0}"


def _read_cookie(scope: Scope) -> bytes:
    try:
        cookies = SimpleCookie(Headers(scope=scope).get("cookie", ""))
    except CookieError:
        return b""
    morsel = cookies.get(get_cookie_name(scope))
    return b"" if morsel is None else morsel.value.encode()


def _refuse(code: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", code)
