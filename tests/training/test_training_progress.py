"""What a run prints about its epochs on a console that is not a terminal."""

import io
import re

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
        assert re.match(rf"epoch {number} of {trainer.epochs}: loss \d\.\d{{4}} · mAP .*%", line)
        assert "regret" in line
