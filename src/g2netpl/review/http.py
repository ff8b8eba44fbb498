"""HTTP for a page on this machine, which trusts no request and which no slow client can block.

Every request names exactly this host and port; everything but static files needs the token in a
header; every write is a POST of JSON from our own page.
"""

import hmac
import json
import re
import sys
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

PATIENCE = 60  # seconds for a request to arrive
MOST_WAITING = 128  # connections without a request
TOKEN_HEADER = "X-G2netpl-Token"
MOST_BYTES = 4096  # of a body
_LONGEST_TARGET = 2048
_LENGTH = re.compile(r"0|[1-9][0-9]{0,8}")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class Reply(NamedTuple):
    """A body and its content type."""

    body: bytes
    kind: str = "application/json"


class Rejection(Exception):
    """A request that is rejected; nothing was changed."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


def require(condition: object, why: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
    """Reject a request unless the condition holds."""
    if not condition:
        raise Rejection(status, why)


class PatientServer(ThreadingHTTPServer):
    """One thread per connection; the one that waits longest for a request makes room."""

    daemon_threads = True
    allow_reuse_address = sys.platform != "win32"  # on Windows it would share the port
    request_queue_size = MOST_WAITING

    def __init__(self, *given: Any) -> None:
        self._waiting: dict[Any, float] = {}  # by socket, since when; the longest first
        self._lock = Lock()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Accept a connection, in place of the oldest if there are too many."""
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                self._drop(next(iter(self._waiting)))
        self.wait_for(request)
        super().process_request(request, client_address)

    def wait_for(self, connection: Any) -> None:
        """Begin to wait for the next request of a connection."""
        self.stop_waiting(connection)
        with self._lock:
            self._waiting[connection] = time.monotonic()

    def stop_waiting(self, connection: Any) -> None:
        """Protect a connection, while its answer is made."""
        with self._lock:
            self._waiting.pop(connection, None)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.stop_waiting(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Every half second: drop connections whose request is late."""
        with self._lock:
            for connection, since in list(self._waiting.items()):
                if time.monotonic() - since > PATIENCE:
                    self._drop(connection)

    def _drop(self, connection: Any) -> None:
        del self._waiting[connection]
        with suppress(OSError):  # its thread finds the connection closed
            connection.shutdown(SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """One connection to a server with `files`, `hosts`, `token`, `get` and `post`."""

    server: Any
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"
    timeout = PATIENCE
    wbufsize = -1  # an answer leaves in one piece
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        """Read a request, answer it, and wait for the next one."""
        super().handle_one_request()
        self.server.wait_for(self.connection)

    def do_GET(self) -> None:
        """Answer or reject a request, GET or POST."""
        try:
            self._check_sender()
            path, query = self._target()
            if self.command == "GET" and path in self.server.files:
                require(not query, "expected no query")
                reply = self.server.files[path]
            else:
                self._check_token()
                body = self._body(query) if self.command == "POST" else None
                self.server.stop_waiting(self.connection)
                get, post = self.server.get, self.server.post
                reply = get(path, query) if body is None else post(path, body)
        except Rejection as rejection:
            self._reject(rejection.status, str(rejection))
        else:
            self._send(HTTPStatus.OK, reply)

    do_POST = do_GET  # noqa: N815

    def handle_expect_100(self) -> bool:
        """Reject: no request is so large that it has to be announced."""
        self._reject(HTTPStatus.EXPECTATION_FAILED, "Expect is not supported")
        return False

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Reject what the base class does not understand, such as other methods."""
        status = HTTPStatus(405 if code == 501 else code)
        self._reject(status, status.phrase)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""

    def _check_sender(self) -> None:
        """Require our exact host, and reject requests that another site has caused."""
        host, origin, site = map(self._one, ("Host", "Origin", "Sec-Fetch-Site"))
        require(host in self.server.hosts, "unknown host", HTTPStatus.MISDIRECTED_REQUEST)
        is_ours = origin in (None, f"http://{host}")
        require(is_ours, "foreign origin", HTTPStatus.FORBIDDEN)
        is_ours = site in (None, "same-origin", "none") or self.requestline.startswith("GET / ")
        require(is_ours, "foreign site", HTTPStatus.FORBIDDEN)
        has_length = self._one("Transfer-Encoding") is None
        require(has_length, "expected Content-Length", HTTPStatus.LENGTH_REQUIRED)
        is_empty = self._one("Content-Length") in (None, "0")
        require(is_empty or self.command != "GET", "a GET has no body")

    def _check_token(self) -> None:
        given = (self._one(TOKEN_HEADER) or "").encode("latin-1", "replace")
        is_right = hmac.compare_digest(given, self.server.token.encode())
        require(is_right, "open the address that g2netpl printed", HTTPStatus.UNAUTHORIZED)

    def _target(self) -> tuple[str, dict[str, str]]:
        """Path and query as they were sent, unlike `self.path`."""
        target = self.requestline.split()[1]
        is_short = len(target) <= _LONGEST_TARGET
        require(is_short, "the address is too long", HTTPStatus.REQUEST_URI_TOO_LONG)
        path, _, query = target.partition("?")
        rules: Any = {"strict_parsing": bool(query), "errors": "strict", "max_num_fields": 8}
        try:
            return path, _unique(parse_qsl(query, keep_blank_values=True, **rules))
        except ValueError:
            raise Rejection(HTTPStatus.BAD_REQUEST, "the query cannot be read") from None

    def _body(self, query: dict[str, str]) -> dict[str, Any]:
        require(not query, "expected no query")
        require(self._one("Origin"), "expected an Origin header", HTTPStatus.FORBIDDEN)
        kind = (self._one("Content-Type") or "").replace(" ", "").lower()
        is_json = kind in ("application/json", "application/json;charset=utf-8")
        require(is_json, "expected application/json", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        length = self._one("Content-Length") or ""
        require(_LENGTH.fullmatch(length), "expected Content-Length", HTTPStatus.LENGTH_REQUIRED)
        is_small = int(length) <= MOST_BYTES
        require(is_small, f"at most {MOST_BYTES} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        content = self.rfile.read(int(length))
        require(len(content) == int(length), "the body is incomplete")
        try:
            body = json.loads(content.decode(), object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            raise Rejection(HTTPStatus.BAD_REQUEST, "the body is not plain JSON") from None
        require(isinstance(body, dict), "expected an object")
        return dict(body)

    def _one(self, name: str) -> str | None:
        """The value of a header, which may come once."""
        values = self.headers.get_all(name, [])
        require(len(values) <= 1, f"{name} comes twice")
        return str(values[0]) if values else None

    def _reject(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True
        self._send(status, Reply(json.dumps({"error": why}).encode()))

    def _send(self, status: HTTPStatus, reply: Reply) -> None:
        self.send_response_only(status)
        content = {"Content-Type": reply.kind, "Content-Length": str(len(reply.body))}
        for name, value in (_HEADERS | content).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply.body)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)
