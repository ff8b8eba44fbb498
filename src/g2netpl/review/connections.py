"""An HTTP server that slow clients cannot block: a minute per request, 128 connections."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from socket import SHUT_RDWR
from threading import Lock
from typing import Any

PATIENCE = 60  # seconds for a request to arrive
MOST = 128  # connections at a time


@dataclass
class _Client:
    since: float  # when we began to wait for its request
    is_known: bool = False  # was served before
    is_served: bool = False  # is served now


class PatientServer(ThreadingHTTPServer):
    """One thread per connection; the one that waits longest makes room, unknown clients first."""

    daemon_threads = True
    allow_reuse_address = sys.platform != "win32"  # on Windows it would share the port
    request_queue_size = MOST

    def __init__(self, *given: Any) -> None:
        self._clients: dict[Any, _Client] = {}  # by socket
        self._lock = Lock()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Accept a connection, or close it if all places are busy."""
        with self._lock:
            waiting = self._waiting() if len(self._clients) >= MOST else {}
            if waiting:
                self._drop(min(waiting, key=lambda r: (waiting[r].is_known, waiting[r].since)))
            has_room = len(self._clients) < MOST
            if has_room:
                self._clients[request] = _Client(time.monotonic())
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Free the place."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Every half second: drop connections whose request is late."""
        with self._lock:
            for request, client in self._waiting().items():
                if time.monotonic() - client.since > PATIENCE:
                    self._drop(request)

    @contextmanager
    def serving(self, request: Any) -> Iterator[None]:
        """Protect a connection while its answer is made."""
        client = self._clients.get(request) or _Client(0)  # it may just have been dropped
        client.is_known = client.is_served = True
        try:
            yield
        finally:
            client.since, client.is_served = time.monotonic(), False

    def answered(self, request: Any) -> None:
        """Begin to wait for the next request of a connection."""
        (self._clients.get(request) or _Client(0)).since = time.monotonic()

    def _waiting(self) -> dict[Any, _Client]:
        return {at: client for at, client in self._clients.items() if not client.is_served}

    def _drop(self, request: Any) -> None:
        del self._clients[request]
        with suppress(OSError):  # its thread finds the connection closed
            request.shutdown(SHUT_RDWR)
