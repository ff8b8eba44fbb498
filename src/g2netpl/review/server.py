"""The review page: what it may ask for, and what it may save."""

import re
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from g2netpl.base.errors import InputError, Refused
from g2netpl.images.thumbnails import SIZES, Pictures
from g2netpl.review.http import Answer, LocalServer, Refusal, number, only, to_json
from g2netpl.review.photos import PhotoReview
from g2netpl.review.questions import ORDERS
from g2netpl.review.session import Review

_MOST_QUESTIONS = 20
_ID = re.compile(r"[0-9a-f]{16,64}")
_FILES = {
    "/": ("review.html", "text/html; charset=utf-8"),
    "/review.css": ("review.css", "text/css; charset=utf-8"),
    **{
        f"/{name}": (name, "text/javascript; charset=utf-8")
        for name in ("review.js", "page.js", "labels.js", "photos.js")
    },
}


class ReviewServer(LocalServer):
    """Serves one review; images are asked for by their row and sent as small JPEGs."""

    def __init__(self, review: Review, pictures: Pictures, order: str, port: int = 0) -> None:
        self.review, self.pictures, self.order = review, pictures, order
        folder = files("g2netpl.review") / "page"
        super().__init__(
            {
                path: Answer((folder / name).read_bytes(), kind)
                for path, (name, kind) in _FILES.items()
            },
            port,
        )

    def get(self, path: str, query: dict[str, str]) -> Answer:
        """The state of the review, the next questions, or a picture."""
        try:
            if path == "/api/state":
                only(query)
                return to_json({"order": self.order, **self.review.state()})
            if path == "/api/questions":
                return to_json(self._questions(query))
            if path == "/api/image":
                return Answer(self._image(query), "image/jpeg")
        except InputError as problem:
            raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(problem)) from None
        return super().get(path, query)

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        """An answer to a question, or an undo; what is confirmed is on the disk."""
        try:
            if path == "/api/decide":
                self._decide(body)
                return to_json({"progress": self.review.progress()})
            if path == "/api/undo":
                only(body, "id", "answer")
                question = self.review.undo(_id(body), _id(body, "answer"))
                return to_json({"question": question, "progress": self.review.progress()})
        except OSError as problem:
            why = f"not saved: {problem.strerror}"
            raise Refusal(HTTPStatus.INSUFFICIENT_STORAGE, why) from None
        except Refused as problem:
            raise Refusal(HTTPStatus.CONFLICT, str(problem)) from None
        return super().post(path, body)

    def _questions(self, query: dict[str, str]) -> dict[str, Any]:
        only(query, "order", "count", optional=("class", "search"))
        _known_order(query["order"])
        count = number(query["count"], _MOST_QUESTIONS + 1)
        column = None
        if "class" in query:
            column = number(query["class"], len(self.review.saved.classes))
            self._check_column(column)
        found = self.review.questions(query["order"], count, column, query.get("search", ""))
        return {"questions": found, "progress": self.review.progress()}

    def _image(self, query: dict[str, str]) -> bytes:
        only(query, "row", "size")
        row = number(query["row"], len(self.pictures.names))
        size = number(query["size"], SIZES[-1] + 1)
        if size not in SIZES:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"size: one of {SIZES}")
        return self.pictures.jpeg(row, size)

    def _decide(self, body: dict[str, Any]) -> None:
        only(body, "id", "row", "column", "answer", "order")
        row, column, answer = self._check_row(body["row"]), body["column"], body["answer"]
        self._check_column(column)
        if answer not in ("yes", "no", "skip"):
            raise Refusal(HTTPStatus.BAD_REQUEST, "answer: expected yes, no or skip")
        _known_order(body["order"])
        self.review.decide(_id(body), row, column, answer, body["order"])

    def _check_row(self, row: object) -> int:
        if type(row) is not int or not 0 <= row < len(self.review.saved.images):
            raise Refusal(HTTPStatus.BAD_REQUEST, "row: not an image of this run")
        return row

    def _check_column(self, column: object) -> None:
        if type(column) is not int or column not in self.review.columns:
            raise Refusal(HTTPStatus.BAD_REQUEST, "class: not one of this review")


class PhotoServer(ReviewServer):
    """Serves photos with their likely classes."""

    review: PhotoReview

    def _decide(self, body: dict[str, Any]) -> None:
        only(body, "id", "row", "answer", "on", "off")
        id, row, answer = _id(body), self._check_row(body["row"]), body["answer"]
        on, off = self._check_tags(body["on"]), self._check_tags(body["off"])
        if not 0 < len(on) + len(off) == len({*on, *off}):
            raise Refusal(HTTPStatus.BAD_REQUEST, "expected what was shown, each class once")
        if self.review.one_of and len(on) > 1:
            raise Refusal(HTTPStatus.BAD_REQUEST, "on: a photo of this run has one class")
        if answer == "skip":
            self.review.skip(id, row, [*on, *off])
        elif answer == "save" or (answer == "rest" and self.review.can_say_rest):
            self.review.save(id, row, on, off, rest=answer == "rest")
        else:
            raise Refusal(HTTPStatus.BAD_REQUEST, "answer: expected save, rest or skip")

    def _check_tags(self, columns: object) -> list[int]:
        if not isinstance(columns, list):
            raise Refusal(HTTPStatus.BAD_REQUEST, "expected a list of classes")
        for column in columns:
            self._check_column(column)
        return columns


def _known_order(name: object) -> None:
    if not isinstance(name, str) or name not in ORDERS:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"order: one of {', '.join(ORDERS)}")


def _id(body: dict[str, Any], key: str = "id") -> str:
    given = body[key]
    if not isinstance(given, str) or not _ID.fullmatch(given):
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{key}: expected 16 to 64 hexadecimal digits")
    return given
