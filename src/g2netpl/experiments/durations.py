"""How long the trainings of a reproduction take on this machine: the first epoch, measured."""

from dataclasses import replace

from g2netpl.base.console import Console
from g2netpl.experiments.cells import train_cell
from g2netpl.experiments.data import PhotoData
from g2netpl.experiments.reproduction import Plan, Training
from g2netpl.game.methods import find_method, needs_of
from g2netpl.training.session import on_images


def estimate_seconds(plan: Plan, jobs: int) -> float:
    """For all trainings of the plan, from one epoch of the game."""
    trainings = plan.trainings()
    if not trainings:
        return 0.0
    name = next(name for name in plan.recipes if plan.comparisons(name))
    data, first = plan.data(name), trainings[0]
    comparison = replace(first.comparison, epochs=1, keep_labels=False, expected_positives=1.0)
    # one that cannot diverge
    cell = replace(first.cell, learning_rate=1e-3, method="g2netpl", setting="sspl:0.5", weight="")
    view = plan.protocol.photos.get("view")
    passes = sum(_passes(each, view) for each in trainings if each.mode != "linear")
    if not isinstance(data, PhotoData):
        outcome = train_cell(data, comparison, cell)
        epoch = float(outcome.history[0]["seconds"])
        once = float(outcome.row["seconds"]) - epoch
        return (passes * epoch + len(trainings) * once) / max(jobs, 1)
    frozen = 0.0
    if any(each.mode != "end-to-end" for each in trainings):
        frozen = 1.0  # what the frozen part makes of the images, once for all
    is_top = comparison.config_of(cell, data.keys).modes[-1] == "top"
    train, test = data.parts
    some = train.paths[: max(32, 2 * cell.batch_size)]
    trial = {"mode": "end-to-end", "pretrained": False, "weights": None, "max_bad": len(some)}
    if view == "pair":
        trial["view"] = "strong"  # one pass
    config = comparison.config_of(cell, {**data.keys, **trial})
    config = config.model_copy(update={"setting": "own", "validation": 0.0})
    session = on_images(config, some, train.table.take(range(len(some))), Console(quiet=True))
    rate = session.play().history[0]["images_per_second"]
    assert rate is not None  # it was measured just now
    learns = session.inputs.cut.share if is_top else 1.0
    return (len(train.table) + len(test.table) / 10) / rate * (passes * learns + frozen)


_FORWARD = 1 / 3  # of a pass; the way back is about two forwards


def _passes(training: Training, view: str | None = None) -> float:
    """What a cell costs, in passes over the images, forward and back."""
    name, changes = training.comparison.options_of_cell(training.cell)
    needs, two_views = needs_of(name, changes), find_method(name).two_views
    asked: tuple[bool, ...] = (  # forwards besides that of the step
        two_views or view == "pair",  # the weak view, which teaches or is answered
        needs.prediction == "fresh" and view != "pair",
    )
    epoch = (2 if two_views else 1) + sum(asked) * _FORWARD
    rounds, between = needs.rounds, needs.passes
    if training.comparison.features is None:  # dropout is behind the backbone, which looks once
        between = min(between, 1)
    return training.comparison.epochs * rounds * epoch + (rounds - 1) * between * _FORWARD
