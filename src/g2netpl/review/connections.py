"""A server whom nobody keeps from answering others by being slow.

A request has a minute to arrive as a whole. Where all places are taken, the connection that has
kept us waiting longest makes room for the next one; those that were never served go first.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from socket import SHUT_RDWR
from threading import Lock
from typing import Any

from g2netpl.base.system import IS_WINDOWS

PATIENCE = 60  # seconds for a request to arrive
MOST = 128  # connections at a time


@dataclass
class _Client:
    """One connection, as we see it."""

    since: float  # when we began to wait for its request
    is_known: bool = False  # was served before
    is_served: bool = False  # now


class PatientServer(ThreadingHTTPServer):
    """One thread per connection, and no more connections than we can bear."""

    daemon_threads = True
    allow_reuse_address = not IS_WINDOWS  # there, it is to share it with others
    request_queue_size = MOST

    def __init__(self, *given: Any) -> None:
        self._clients: dict[Any, _Client] = {}  # by their sockets
        self._lock = Lock()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take up a connection; turned away is one for which none can make room."""
        with self._lock:
            if len(self._clients) >= MOST:
                self._make_room()
            has_room = len(self._clients) < MOST
            if has_room:
                self._clients[request] = _Client(time.monotonic())
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """As usual, and the place is free."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Every half second: drop those who have not sent a whole request in time."""
        with self._lock:
            for request, client in self._waiting().items():
                if time.monotonic() - client.since > PATIENCE:
                    self._drop(request)

    @contextmanager
    def serving(self, request: Any) -> Iterator[None]:
        """Work for somebody who may ask for it; such a connection is not dropped meanwhile."""
        client = self._client(request)
        client.is_known = client.is_served = True
        try:
            yield
        finally:
            client.since = time.monotonic()  # to take the answer
            client.is_served = False

    def answered(self, request: Any) -> None:
        """The time for the next request begins."""
        self._client(request).since = time.monotonic()

    def _client(self, request: Any) -> _Client:
        return self._clients.get(request) or _Client(0)  # just dropped

    def _waiting(self) -> dict[Any, _Client]:
        return {each: client for each, client in self._clients.items() if not client.is_served}

    def _make_room(self) -> None:
        waiting = self._waiting()
        if waiting:
            self._drop(min(waiting, key=lambda each: (waiting[each].is_known, waiting[each].since)))

    def _drop(self, request: Any) -> None:
        """Its thread finds the connection closed, and ends."""
        del self._clients[request]
        with suppress(OSError):
            request.shutdown(SHUT_RDWR)
