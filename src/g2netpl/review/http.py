"""A small server for pages on this machine, which trusts nobody.

It listens on the loopback address alone. Every request must name exactly this host and port, so no
other site can be made to look like ours; everything but the page's own files needs the token, in a
header; what writes is a POST of JSON from our own page. Addresses are compared as they stand, and
no request is larger than a few kilobytes.
"""

import hmac
import json
import re
import secrets
import socketserver
import sys
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from g2netpl.base.errors import InputError
from g2netpl.review.connections import PATIENCE, PatientServer

TOKEN_HEADER = "X-G2netpl-Token"
MOST_BYTES = 4096  # of a body
_LONGEST_TARGET = 2048
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")

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


class Answer(NamedTuple):
    """What goes back: the bytes and their kind."""

    body: bytes
    kind: str


class Refusal(Exception):
    """A request that is refused, and nothing done about it."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class LocalServer(PatientServer):
    """Serves some files to anybody on this machine, and the rest to whom we gave the token."""

    def __init__(self, files: Mapping[str, Answer], port: int = 0) -> None:
        self.files = files
        self.token = secrets.token_urlsafe(32)
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as problem:
            raise InputError(f"--port {port}: cannot be used ({problem.strerror})") from None
        self.hosts = tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))

    def get(self, path: str, query: dict[str, str]) -> Answer:
        """Answer a GET that has our token; raises `Refusal`."""
        raise Refusal(HTTPStatus.NOT_FOUND, "no such page")

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        """Answer a POST that has our token and comes from our page; raises `Refusal`."""
        raise Refusal(HTTPStatus.NOT_FOUND, "no such page")

    @property
    def address(self) -> str:
        """What to open: the token is in the part that browsers keep to themselves."""
        return f"http://{self.hosts[0]}/#{self.token}"

    def server_bind(self) -> None:
        """Without asking a name server who we are."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks off is nothing to tell."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: LocalServer
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"
    timeout = PATIENCE
    wbufsize = -1  # an answer leaves in one piece
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        """As usual."""
        super().handle_one_request()
        self.server.answered(self.connection)

    def do_GET(self) -> None:
        """Read something."""
        self._respond()

    def do_POST(self) -> None:
        """Change something."""
        self._respond()

    def handle_expect_100(self) -> bool:
        """Nothing we take is so large that it had to be announced."""
        self._refuse(HTTPStatus.EXPECTATION_FAILED, "no Expect, please")
        return False

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class does not understand, such as other methods."""
        status = HTTPStatus(405 if code == 501 else code)
        self._refuse(status, status.phrase)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: the terminal is for people."""

    def _respond(self) -> None:
        try:
            self._check_sender()
            path, query = self._target()
            answer = self._post(path, query) if self.command == "POST" else self._get(path, query)
        except Refusal as refusal:
            self._refuse(refusal.status, str(refusal))
        else:
            self._send(HTTPStatus.OK, answer)

    def _get(self, path: str, query: dict[str, str]) -> Answer:
        if path in self.server.files:
            only(query)
            return self.server.files[path]
        self._check_token()
        with self.server.serving(self.connection):
            return self.server.get(path, query)

    def _post(self, path: str, query: dict[str, str]) -> Answer:
        self._check_token()
        only(query)
        if self._one("Origin") is None:
            raise Refusal(HTTPStatus.FORBIDDEN, "expected an Origin header")
        body = self._body()
        with self.server.serving(self.connection):
            return self.server.post(path, body)

    def _check_sender(self) -> None:
        """The exact host on every route, and no request that another site has caused."""
        host = self._one("Host")
        if host not in self.server.hosts:
            raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, "unknown host")
        origin, site = self._one("Origin"), self._one("Sec-Fetch-Site")
        if origin is not None and origin != f"http://{host}":
            raise Refusal(HTTPStatus.FORBIDDEN, "foreign origin")
        opens_page = self.command == "GET" and self.path == "/"
        if site not in (None, "same-origin", "none") and not opens_page:
            raise Refusal(HTTPStatus.FORBIDDEN, "foreign site")
        if self._one("Transfer-Encoding") is not None:
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "expected Content-Length")
        if self.command == "GET" and self._one("Content-Length") not in (None, "0"):
            raise Refusal(HTTPStatus.BAD_REQUEST, "a GET has no body")

    def _check_token(self) -> None:
        given = self._one(TOKEN_HEADER) or ""
        token = self.server.token.encode()
        if not hmac.compare_digest(given.encode("latin-1", "replace"), token):
            raise Refusal(HTTPStatus.UNAUTHORIZED, "open the address that this start has printed")

    def _target(self) -> tuple[str, dict[str, str]]:
        target = self.requestline.split()[1]  # as it came; self.path has been tidied up
        if len(target) > _LONGEST_TARGET:
            raise Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long")
        path, _, query = target.partition("?")
        try:
            pairs = parse_qsl(
                query,
                keep_blank_values=True,
                strict_parsing=bool(query),
                errors="strict",
                max_num_fields=8,
            )
            return path, _unique(pairs)
        except ValueError:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the query cannot be read") from None

    def _body(self) -> dict[str, Any]:
        kind = (self._one("Content-Type") or "").replace(" ", "").lower()
        if kind not in ("application/json", "application/json;charset=utf-8"):
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        length = self._one("Content-Length") or ""
        if not _NUMBER.fullmatch(length):
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "expected Content-Length")
        if int(length) > MOST_BYTES:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BYTES} bytes")
        content = self.rfile.read(int(length))
        try:
            if len(content) != int(length):
                raise ValueError("broken off")
            body = json.loads(content.decode(), object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            raise Refusal(HTTPStatus.BAD_REQUEST, "the body is not plain JSON") from None
        if not isinstance(body, dict):
            raise Refusal(HTTPStatus.BAD_REQUEST, "expected an object")
        return body

    def _one(self, name: str) -> str | None:
        """The value of a header that may come once."""
        values = self.headers.get_all(name, [])
        if len(values) > 1:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"{name} comes twice")
        return str(values[0]) if values else None

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True
        self._send(status, to_json({"error": why}))

    def _send(self, status: HTTPStatus, answer: Answer) -> None:
        self.send_response_only(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)


def to_json(content: Mapping[str, Any]) -> Answer:
    """An answer in JSON."""
    return Answer(json.dumps(content).encode(), "application/json")


def only(given: Mapping[str, Any], *needed: str, optional: tuple[str, ...] = ()) -> None:
    """Refuse what has not exactly these keys."""
    if not set(needed) <= set(given) <= {*needed, *optional}:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"expected {', '.join(needed) or 'nothing'}")


def number(text: str, limit: int) -> int:
    """A number as people write it, from 0 and below the limit."""
    if not _NUMBER.fullmatch(text):
        raise Refusal(HTTPStatus.BAD_REQUEST, "expected a number")
    if int(text) >= limit:
        raise Refusal(HTTPStatus.NOT_FOUND, "there is no such number")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)
