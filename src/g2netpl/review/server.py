"""The server of the review page: what the page may ask for, and what it may save."""

import json
import secrets
import socketserver
import sys
from collections.abc import Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from g2netpl.images.thumbnails import Pictures
from g2netpl.review.http import Handler, PatientServer, Rejection, Reply, require
from g2netpl.review.session import Order, ReviewSession
from g2netpl.runs.answers import PHOTOS
from g2netpl.utils.errors import InputError

_FILES = {
    "/": ("review.html", "text/html; charset=utf-8"),
    "/review.css": ("review.css", "text/css; charset=utf-8"),
    "/review.js": ("review.js", "text/javascript; charset=utf-8"),
    "/questions.js": ("questions.js", "text/javascript; charset=utf-8"),
}
_Id = Annotated[str, Field(pattern=r"^[0-9a-f]{16,64}$")]
_Digits = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]
_Checked = TypeVar("_Checked", bound=BaseModel)


class _Questions(BaseModel, strict=True, extra="forbid"):
    order: Order
    count: _Digits
    column: Annotated[_Digits | None, Field(alias="class")] = None


class _Image(BaseModel, strict=True, extra="forbid"):
    row: _Digits
    size: Literal["256", "1024"]


class _Answer(BaseModel, strict=True, extra="forbid"):
    id: _Id
    row: int
    answer: Literal["save", "rest", "skip"]
    on: list[int]
    off: list[int]
    order: Order


class _Undo(BaseModel, strict=True, extra="forbid"):
    id: _Id
    answer: _Id


class ReviewServer(PatientServer):
    """Serves one review session on the loopback address; images are requested by row."""

    def __init__(
        self, session: ReviewSession, pictures: Pictures, order: str, port: int = 0
    ) -> None:
        self.session, self.pictures, self.order = session, pictures, order
        self.token, page = secrets.token_urlsafe(32), files("g2netpl.review") / "page"
        self.files = {
            path: Reply((page / name).read_bytes(), kind) for path, (name, kind) in _FILES.items()
        }
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except OSError as problem:
            raise InputError(f"--port {port}: cannot be used ({problem.strerror})") from None
        self.hosts = tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))

    @property
    def address(self) -> str:
        """What to open: browsers do not send the part with the token."""
        return f"http://{self.hosts[0]}/#{self.token}"

    def get(self, path: str, query: dict[str, str]) -> Reply:
        """The state of the session, the next questions, or a picture."""
        try:
            if path == "/api/state":
                require(not query, "expected no query")
                return _to_json({"order": self.order, **self.session.state()})
            if path == "/api/questions":
                wanted = _check(_Questions, query)
                require(int(wanted.count) <= 20, "count: at most 20")
                column = None if wanted.column is None else int(wanted.column)
                self._check_labels(0, [] if column is None else [column])
                questions = self.session.questions(wanted.order, int(wanted.count), column)
                return _to_json({"questions": questions, "progress": self.session.progress()})
            if path == "/api/image":
                image = _check(_Image, query)
                self._check_labels(int(image.row))
                return Reply(self.pictures.jpeg(int(image.row), int(image.size)), "image/jpeg")
        except InputError as problem:
            raise Rejection(HTTPStatus.UNPROCESSABLE_ENTITY, str(problem)) from None
        raise Rejection(HTTPStatus.NOT_FOUND, "no such page")

    def post(self, path: str, body: dict[str, Any]) -> Reply:
        """Save an answer or an undo; it is on the disk when this returns."""
        try:
            if path == "/api/decide":
                self._save(_check(_Answer, body))
            elif path == "/api/undo":
                undo = _check(_Undo, body)
                self.session.undo(undo.id, undo.answer)
            else:
                raise Rejection(HTTPStatus.NOT_FOUND, "no such page")
        except OSError as problem:
            why = f"not saved: {problem.strerror}"
            raise Rejection(HTTPStatus.INSUFFICIENT_STORAGE, why) from None
        except InputError as problem:
            raise Rejection(HTTPStatus.CONFLICT, str(problem)) from None
        return _to_json({"progress": self.session.progress()})

    def _save(self, given: _Answer) -> None:
        on, off, session, columns = given.on, given.off, self.session, [*given.on, *given.off]
        self._check_labels(given.row, columns)
        require(0 < len(columns) == len({*columns}), "expected each class shown, once")
        is_photo, is_rest = session.ask == PHOTOS, given.answer == "rest"
        require(is_photo or (len(columns) == 1 and not is_rest), "expected yes or no of one class")
        is_possible = len(on) <= 1 or not session.single_label
        require(is_possible, "on: a photo of this run has one class")
        answers = dict.fromkeys(on, "yes") | dict.fromkeys(off, "no")
        if given.answer == "skip":
            answers = dict.fromkeys(columns, "skip")
        session.save(given.id, given.row, answers, rest=is_rest, order=given.order)

    def _check_labels(self, row: int, columns: Sequence[int] = ()) -> None:
        images, known = len(self.session.saved.images), set(self.session.columns.tolist())
        require(0 <= row < images, "row: not an image of this run")
        require(known.issuperset(columns), "class: not one of this review")

    def server_bind(self) -> None:
        """Bind without asking a name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _check(model: type[_Checked], content: dict[str, Any]) -> _Checked:
    """The content as a model, or a rejection that names its first key that does not fit."""
    try:
        return model.model_validate(content)
    except ValidationError as problem:
        first = problem.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise Rejection(HTTPStatus.BAD_REQUEST, why) from None


def _to_json(content: dict[str, Any]) -> Reply:
    return Reply(json.dumps(content).encode())
