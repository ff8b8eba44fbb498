"""What a run prints about its epochs on a console that is not a terminal."""

import io
import re
from types import SimpleNamespace

import pytest
from small_trainer import small_trainer

from g2netpl.training.progress import Progress
from g2netpl.utils.console import Console


def test_each_epoch_has_a_line():
    console = Console(file=io.StringIO(), width=80)
    trainer = small_trainer(callbacks=[Progress(console)])
    trainer.fit()
    lines = console.file.getvalue().splitlines()
    epochs = [line for line in lines if line.startswith("epoch ")]
    assert len(epochs) == trainer.epochs > 1
    for number, line in enumerate(epochs, start=1):
        assert re.match(rf"epoch {number} of {trainer.epochs}: cost \d\.\d{{4}} · mAP .*%", line)
        assert "regret" in line


def record(**numbers):
    nothing = dict.fromkeys(("predicted_positives", "soft_positives", "movement"))
    return {**nothing, "cost": 0.1, **numbers}


def predicting(numbers, soft=1.0):
    return [record(predicted_positives=each, soft_positives=soft) for each in numbers]


def moving(numbers):
    return [record(movement=each) for each in numbers]


@pytest.mark.parametrize(
    ("history", "warning", "epoch"),
    [
        (predicting((9.0, 9.0, 9.0, 9.5, 9.0)), "now predicts 9.50 positives per image, k is 2", 4),
        (predicting((2.0, 2.0, 2.0, 5.9, 0.6)), "now predicts 0.60 positives per image, k is 2", 5),
        (predicting((2.0, 2.0, 2.0, 5.9, 0.7)), None, None),
        (predicting((9.0,) * 5, soft=None), None, None),  # a method without pseudo-labels
        (moving((0.1, 0.5, 0.9, 0.98, 0.99)), "oscillate, by 0.90 on average", 3),
        (moving((0.45, 0.1, 0.05, 0.02, 0.01)), None, None),  # decided at once, and settled
        (moving((0.0, 0.2, 0.4, 0.28, 0.4)), None, None),
        (moving((None,) * 5), None, None),
    ],
)
def test_a_collapse_and_an_oscillation_are_reported_once(history, warning, epoch):
    console = Console(file=io.StringIO(), width=300)
    progress, warned = Progress(console), []
    for number in range(1, len(history) + 1):
        state = SimpleNamespace(history=history[:number])
        progress.on_epoch_end(SimpleNamespace(state=state, k=2.0, epochs=5))
        if "warning" in console.file.getvalue() and not warned:
            warned = [number]
    assert warned == ([] if epoch is None else [epoch])
    printed = console.file.getvalue()
    assert printed.count("warning") == len(warned)
    assert (warning or "") in printed
