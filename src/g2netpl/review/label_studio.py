"""The protocol of Label Studio's machine learning backends: predictions out, annotations in.

What Label Studio 1.23 asks for: GET /health and /versions, POST /setup with the labelling
interface, /predict with tasks, /webhook with an event about a task, or with START_TRAINING.
Addresses in tasks name files of the image folder; nothing is fetched, and the access token that
/setup brings is neither used nor kept.
"""

from functools import lru_cache
from http import HTTPStatus
from typing import Any

from g2netpl.base.errors import InputError
from g2netpl.labels.formats.json_file import member
from g2netpl.labels.formats.label_studio_controls import Control, prediction, read_controls
from g2netpl.labels.formats.label_studio_tasks import address_in, image_name, labels_in
from g2netpl.labels.table import POSITIVE
from g2netpl.review.http import Answer, LocalServer, Refusal, to_json
from g2netpl.review.learner import Learner

_ANNOTATED = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED")
_controls = lru_cache(maxsize=8)(read_controls)


class LabelStudioServer(LocalServer):
    """Answers a Label Studio on this machine that knows our address."""

    most_bytes = 32 << 20  # some ten thousand tasks
    for_programs = True

    def __init__(
        self, learner: Learner, unchosen_is_no: bool, port: int, token: str | None = None
    ) -> None:
        self.learner, self.unchosen_is_no = learner, unchosen_is_no
        super().__init__({}, port, token)

    @property
    def address(self) -> str:
        """What to tell Label Studio."""
        return f"http://{self.hosts[0]}/{self.token}"

    def get(self, path: str, query: dict[str, str]) -> Answer:
        """That we are here, and which models there are."""
        if path in ("/", "/health"):
            return to_json({"status": "UP", "model_class": "g2netpl"})
        if path == "/versions":
            return to_json({"versions": [self.learner.model.version]})
        return super().get(path, query)

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        """A question or an event."""
        asked = {
            "/setup": self._setup,
            "/predict": self._predict,
            "/webhook": self._event,
        }
        if path not in asked:
            return super().post(path, body)
        try:
            return to_json(asked[path](body))
        except OSError as problem:
            self.learner.tell(f"not saved: {problem.strerror}")
            raise Refusal(HTTPStatus.INSUFFICIENT_STORAGE, "not saved") from None
        except InputError as problem:
            self.learner.tell(f"refused: {problem}")
            raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(problem)) from None

    def _setup(self, body: dict[str, Any]) -> dict[str, Any]:
        """See that some class of the run can be chosen."""
        if not self._choosable(_controls(member(body, "schema", str, "setup"))):
            raise InputError(
                "labelling interface: none of its choices is a class of the run, such as "
                f"{self.learner.classes[0]!r}"
            )
        return {"model_version": self.learner.model.version}

    def _predict(self, body: dict[str, Any]) -> dict[str, Any]:
        controls = _controls(member(body, "label_config", str, "predict"))
        tasks = enumerate(member(body, "tasks", list, "predict"))
        addresses = [self._readable(task, f"task {place}", controls) for place, task in tasks]
        version, classes = self.learner.model.version, self.learner.classes
        results = [
            {"model_version": version, "score": 0.0, "result": []}
            if said is None
            else prediction(controls, classes, *said, version)
            for said in self.learner.say(addresses)
        ]
        return {"results": results, "model_version": version}

    def _readable(self, task: Any, where: str, controls: tuple[Control, ...]) -> str:
        """The address of a task's image; nothing of an odd one, so that the others are answered."""
        try:
            return _address(task, where, controls)
        except InputError as problem:
            self.learner.tell(f"no prediction: {problem}")
            return ""

    def _event(self, body: dict[str, Any]) -> dict[str, Any]:
        action = member(body, "action", str, "webhook")
        if action == "START_TRAINING":
            return {"status": self.learner.learn()}
        if action not in _ANNOTATED:
            return {"status": "passed over"}
        project, task = (member(body, key, dict, "webhook") for key in ("project", "task"))
        controls = _controls(member(project, "label_config", str, "project"))
        annotation = member(body, "annotation", dict, "webhook")
        seen = annotation.get("prediction") if project.get("show_collab_predictions") else None
        changed = action == "ANNOTATION_UPDATED"
        return {"answers": self._take(controls, task, annotation, seen, changed)}

    def _take(
        self,
        controls: tuple[Control, ...],
        task: Any,
        annotation: Any,
        seen: object,
        changed: bool,
    ) -> int:
        """Save what a person chose, and refused by not choosing it; a skipped task says nothing."""
        if isinstance(annotation, dict) and annotation.get("was_cancelled") is True:
            return 0
        address = _address(task, "task", controls)
        refused = sorted(self._refused(controls, address, seen, changed))
        said = dict.fromkeys(refused, "no")
        for name, value in sorted(labels_in(annotation, "annotation"), key=lambda pair: pair[1]):
            said[name] = "yes" if value == POSITIVE else "no"
        return self.learner.answer(address, said)

    def _refused(
        self, controls: tuple[Control, ...], address: str, seen: object, changed: bool
    ) -> set[str]:
        """The classes that are absent unless they are chosen."""
        if self.unchosen_is_no:
            return self._choosable(controls)
        refused = {name for name, _ in labels_in(seen, "prediction")} if seen else set()
        if changed:
            refused |= self.learner.chosen_before(address)
        return refused & self._choosable(controls)

    def _choosable(self, controls: tuple[Control, ...]) -> set[str]:
        choices = {name for each in controls for name in each.choices or ()}
        return choices & set(self.learner.classes)


def _address(task: Any, where: str, controls: tuple[Control, ...]) -> str:
    address = address_in(member(task, "data", dict, where), where, controls[0].key)
    image_name(address, where)  # so that an odd one is told here
    return address
