"""A comparison on the built-in scenes as one self-contained HTML page.

Table, learning curves, the movement of the soft labels, and scenes with what was observed, what
the soft labels say and what the network predicts. The page loads nothing from anywhere.
"""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.experiments.cells import Outcome, choose
from g2netpl.images.scenes import Scenes, make_scenes
from g2netpl.labels.table import POSITIVE, LabelTable
from g2netpl.reports.page import render, write_page
from g2netpl.reports.tables import summarise

COLOURS = {
    "bce": "#7a7a7a",
    "an": "#c8553d",
    "wan": "#d99a2b",
    "epr": "#5b8e5a",
    "role": "#7b5ea7",
    "g2netpl": "#1f6fb2",
}
_SCENES_SHOWN = 8


def write_report(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the page."""
    scenes = make_scenes()
    rows = choose([outcome.row for outcome in outcomes])
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    summary = summarise(rows)
    page = render(
        "report.html",
        settings=settings,
        methods=list(dict.fromkeys(row["method"] for row in rows)),
        summary=summary,
        best={setting: _best(rows, setting) for setting in settings},
        curves=_figure(_draw_curves, outcomes),
        movement=_figure(_draw_movement, outcomes),
        galleries=_galleries(outcomes, scenes),
        images=len(scenes.train),
        test_images=len(scenes.test),
        epochs=len(outcomes[0].history),
        k=outcomes[0].row["expected_positives"],
        rate=rows[0]["learning_rate"],
        batch=rows[0]["batch_size"],
    )
    write_page(path, page)


def _best(rows: Sequence[dict[str, Any]], setting: str) -> str:
    return str(
        max((r for r in rows if r["setting"] == setting), key=lambda r: r["test_map"])["method"]
    )


def _figure(draw: Any, outcomes: Sequence[Outcome]) -> str:
    """Run a drawing function and give its picture as SVG text."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "g2netpl", "font.size": 10}):
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        draw(figure, outcomes)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _draw_curves(figure: Any, outcomes: Sequence[Outcome]) -> None:
    """Validation mAP over epochs, a panel per partial setting, full labels as a reference."""
    full = [outcome for outcome in outcomes if outcome.row["setting"] == "full"]
    settings = list(dict.fromkeys(o.row["setting"] for o in outcomes if o.row["setting"] != "full"))
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    for panel, setting in zip(panels, settings, strict=True):
        for outcome in [*full, *(o for o in outcomes if o.row["setting"] == setting)]:
            method = outcome.row["method"]
            epochs = [record["epoch"] for record in outcome.history]
            values = [100 * record["validation_map"] for record in outcome.history]
            label = f"{method} (full labels)" if outcome.row["setting"] == "full" else method
            style = "--" if outcome.row["setting"] == "full" else "-"
            width = 2.6 if method == "g2netpl" else 1.4
            panel.plot(epochs, values, style, color=COLOURS.get(method), label=label, lw=width)
        panel.set(title=setting, xlabel="epoch")
        _whole_epochs(panel)
    panels[0].set_ylabel("validation mAP × 100")
    panels[0].legend(frameon=False, fontsize=8)


def _draw_movement(figure: Any, outcomes: Sequence[Outcome]) -> None:
    """û of hidden positives and hidden negatives over epochs, for the game."""
    played = [outcome for outcome in outcomes if outcome.row["method"] == "g2netpl"]
    panels = figure.subplots(1, len(played) + 1, squeeze=False)[0]
    for panel, outcome in zip(panels, played, strict=False):
        for name, colour in (("positive", "#1f6fb2"), ("negative", "#c8553d")):
            bands = np.array([record[name] for record in outcome.movement])  # (epochs, 3)
            epochs = np.arange(1, len(bands) + 1)
            panel.fill_between(epochs, bands[:, 0], bands[:, 2], color=colour, alpha=0.2, lw=0)
            panel.plot(epochs, bands[:, 1], color=colour, lw=2, label=f"hidden {name}s")
        panel.set(title=outcome.row["setting"], xlabel="epoch", ylim=(0, 1))
        _whole_epochs(panel)
    panels[0].set_ylabel("soft label û: median and quartiles")
    panels[0].legend(frameon=False, fontsize=8)
    for outcome, style in zip(played, ("-", "--"), strict=False):
        numbers = [record["epoch"] for record in outcome.history]
        for key, colour in (
            ("undecided", "#444444"),
            ("movement", "#d99a2b"),
            ("regret", "#7b5ea7"),
        ):
            values = [record[key] for record in outcome.history]
            name = f"{key}, {outcome.row['setting']}"
            panels[-1].plot(numbers, values, style, color=colour, label=name, lw=1.4)
    panels[-1].set(title="towards equilibrium", xlabel="epoch", ylim=(0, 1.55), yticks=(0, 0.5, 1))
    panels[-1].legend(frameon=False, fontsize=7, ncols=2, loc="upper center")
    _whole_epochs(panels[-1])


def _whole_epochs(panel: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.grid(alpha=0.25)


def _galleries(outcomes: Sequence[Outcome], scenes: Scenes) -> list[dict[str, Any]]:
    """A few training scenes per partial setting, with the labels of the game."""
    galleries = []
    for outcome in outcomes:
        if outcome.row["method"] != "g2netpl" or outcome.soft is None or outcome.predicted is None:
            continue
        truth = scenes.train.take(outcome.training)
        crowded = np.flatnonzero((truth.values == POSITIVE).sum(axis=1) >= 2)[:_SCENES_SHOWN]
        galleries.append(
            {
                "setting": outcome.row["setting"],
                "cards": [_card(int(index), outcome, truth, scenes) for index in crowded],
            }
        )
    return galleries


def _card(index: int, outcome: Outcome, truth: LabelTable, scenes: Scenes) -> dict[str, Any]:
    assert outcome.soft is not None
    assert outcome.predicted is not None
    classes = np.array(truth.classes)

    def strongest(values: npt.NDArray[np.floating]) -> list[tuple[str, int]]:
        order = np.argsort(-values)[:4]
        return [
            (str(classes[j]), round(100 * float(values[j]))) for j in order if values[j] >= 0.25
        ]

    seen = classes[outcome.visible[index] == POSITIVE]
    return {
        "picture": _picture(scenes.train_images[outcome.training[index]]),
        "truth": ", ".join(classes[truth.values[index] == POSITIVE]),
        "observed": ", ".join(seen) or "nothing",
        "soft": strongest(outcome.soft[index]),
        "predicted": strongest(outcome.predicted[index]),
    }


def _picture(pixels: npt.NDArray[np.uint8]) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return base64.b64encode(buffer.getvalue()).decode()
