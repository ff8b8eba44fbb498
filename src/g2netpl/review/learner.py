"""A run that predicts, takes answers from elsewhere, and is trained further on them.

Answers go to review.jsonl of the run. The training that goes on with them is
`g2netpl train --resume-labels RUN --output RUN-answered`, a process of its own; until it has ended
the network of before predicts. It always begins with RUN and all answers, so that the result does
not depend on when trainings were asked for.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Lock, Thread

import numpy as np
import numpy.typing as npt

from g2netpl.base.arrays import Scores
from g2netpl.base.errors import InputError, Refused, UserError, counted
from g2netpl.base.terminal import quoted
from g2netpl.images.thumbnails import Roots
from g2netpl.labels.formats.label_studio_tasks import ImagesByAddress
from g2netpl.labels.table import POSITIVE, UNOBSERVED
from g2netpl.review.session import Review
from g2netpl.runs.answers import latest, of_labels, read_decisions
from g2netpl.runs.completion import complete
from g2netpl.runs.folder import DECIDED, is_begun, is_finished
from g2netpl.runs.run import Run

ORDER = "label-studio"  # what asked, in the answers
Said = tuple[Scores, npt.NDArray[np.bool_]]  # the chance of each class, and whether it is there


class Model:
    """What a finished run says of images: its own at once, others by its network.

    Everything is read at the beginning: a training may replace the folder meanwhile.
    """

    def __init__(self, folder: Path, roots: Roots) -> None:
        self.run, self.roots = Run.open(folder), roots
        completed = complete(self.run)
        self.images = ImagesByAddress(self.run.labels.images, roots.images)
        self.version, self.thresholds = self.run.version, self.run.thresholds
        self.chances, self.decided = completed.scores, completed.values == POSITIVE
        self._alone = Lock()  # one prediction at a time

    def path(self, address: str) -> str | None:
        """The file of an image that was not in the run, if it lies in the image folder."""
        for name in self.images.names(address, "image"):
            with suppress(InputError):
                return self.roots.path(name)
        return None

    def of_files(self, paths: Sequence[str]) -> Said:
        """Of image files that it does not know; a chance is NaN where one cannot be read."""
        with self._alone:
            chances = self.run.predict(paths, max_bad=len(paths))
        return chances, self.thresholds.decide(chances)

    def keep_network(self) -> None:
        """Have the network in memory, before its file is replaced."""
        with self._alone:
            _ = self.run.network


class Learner:
    """Predictions, answers and trainings around one run.

    `tell` is told what happens; `flags` are given to each training.
    """

    def __init__(
        self,
        folder: str | Path,
        roots: Roots,
        tell: Callable[[str], None],
        flags: Sequence[str] = (),
    ) -> None:
        self.folder, self.roots, self.tell, self.flags = Path(folder), roots, tell, flags
        name = self.folder.resolve()
        self.answered = name.with_name(f"{name.name}-answered")
        self._check_answered()
        self.model = Model(self.answered if is_finished(self.answered) else self.folder, roots)
        self.review = Review(folder)
        self.images = ImagesByAddress(self.review.saved.images, roots.images)
        self.classes = self.review.saved.classes
        self._places = {name: column for column, name in enumerate(self.classes)}
        self._lock = Lock()
        self._thread: Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted = False  # one more training, when this one has ended
        self._closed = False

    def close(self) -> None:
        """End a training, and let go of the answers."""
        with self._lock:
            self._closed, thread = True, self._thread
            if self._process is not None:
                self._process.terminate()
        if thread is not None:
            thread.join()
        self.review.close()

    def say(self, addresses: Sequence[str]) -> list[Said | None]:
        """What is known of images, and expected where nothing is; None of one we do not have."""
        model = self.model
        said: list[Said | None] = [None] * len(addresses)
        files: dict[int, str] = {}
        for place, address in enumerate(addresses):
            row = model.images.row(address, "image")
            if row is not None:
                said[place] = model.chances[row], model.decided[row]
            elif (path := model.path(address)) is not None:
                files[place] = path
        if files:
            chances, decided = model.of_files(list(files.values()))
            for place, pair in zip(files, zip(chances, decided, strict=True), strict=True):
                said[place] = pair
        return [self._with_answers(*pair) for pair in zip(addresses, said, strict=True)]

    def answer(self, address: str, answers: Mapping[str, str]) -> int:
        """Save a yes or no about classes of an image; gives how many of them were new."""
        row = self.images.row(address, "image")
        if row is None:
            self.tell(f"an answer about {address!r}, which is no image of the run: not taken")
            return 0
        odd = [name for name in answers if name not in self._places]
        if odd:
            self.tell(f"an answer about {odd[0]!r}, which is no class of the run: not taken")
        new = 0
        for name, answer in answers.items():
            column = self._places.get(name)
            if column is None or self.review.values[row, column] == (answer == "yes"):
                continue
            self.review.decide(token_hex(16), row, column, answer, ORDER)
            new += 1
        return new

    def chosen_before(self, address: str) -> set[str]:
        """The classes of an image that were answered with yes from elsewhere."""
        row = self.images.row(address, "image")
        name = None if row is None else self.review.saved.images[row]
        return {
            each.label
            for each in of_labels(self.review.log.decisions)
            if each.image == name and each.order == ORDER and each.new == POSITIVE
        }

    def learn(self) -> str:
        """Train on all answers, in the background; gives what will happen."""
        if not latest(self.review.log.decisions):
            return "no answers yet"
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                self._wanted = True
                return "a training is under way; one more follows if there are new answers"
            if not self._has_new():
                return "nothing new since the last training"
            self._thread = Thread(target=self._train, daemon=True)
            self._thread.start()
        return f"training on {counted(len(latest(self.review.log.decisions)), 'answer')}"

    def _train(self) -> None:
        while True:
            self._train_once()
            with self._lock:
                self._process = None
                if self._closed or not self._wanted or not self._has_new():
                    self._thread = None
                    return
                self._wanted = False

    def _train_once(self) -> None:
        self.tell(f"training on {counted(len(latest(self.review.log.decisions)), 'answer')}")
        self.model.keep_network()
        command = [sys.executable, "-m", "g2netpl", "train", "--overwrite"]
        command += ["--resume-labels", str(self.folder), "--output", str(self.answered)]
        command += self.flags
        with self._lock:
            if self._closed:
                return
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        _, said = self._process.communicate()
        if self._process.returncode:
            lines = said.decode(errors="replace").strip().splitlines() or ["no reason given"]
            self.tell(f"the training failed, the model stays as it was: {lines[-1]}")
            return
        try:
            self.model = Model(self.answered, self.roots)
        except UserError as problem:
            self.tell(f"the model stays as it was: {problem}")
        else:
            self.tell(f"trained: {self.model.version} predicts from now on")

    def _has_new(self) -> bool:
        """Whether there are answers that the latest training did not know."""
        before = read_decisions(self.folder, DECIDED)
        known = latest([*before, *latest(self.review.log.decisions)])
        return not is_finished(self.answered) or read_decisions(self.answered, DECIDED) != known

    def _check_answered(self) -> None:
        if not is_begun(self.answered):
            return
        before = Run.open(self.answered).about["config"].get("resume_labels")
        if before is None or Path(before).resolve() != self.folder.resolve():
            raise Refused(
                f"{self.answered}: is another run, and trainings on answers would replace it; "
                f"rename it, or {quoted(self.folder)}"
            )

    def _with_answers(self, address: str, said: Said | None) -> Said | None:
        row = self.images.row(address, "image")
        if said is None or row is None:
            return said
        chances, decided = said
        values = self.review.values[row]
        known = values != UNOBSERVED
        return np.where(known, values, chances), np.where(known, values == POSITIVE, decided)
