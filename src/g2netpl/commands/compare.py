"""Compare methods on frozen features, on images or on built-in scenes, over settings and seeds.

examples:
  g2netpl compare --features coco_features --methods an,epr,g2netpl --settings fspl,sspl:0.2 \\
      --search-weights --output runs/fair
  g2netpl compare --labels full.csv --images photos --methods an,g2netpl:penalty=2 \\
      --settings fspl --seeds 0,1 --set image_size=128 --output runs/photos
  g2netpl compare --methods an,g2netpl --settings sspl:0.2 --epochs 12 --output runs/scenes

With --labels, networks are trained on image files as in g2netpl train, with --mode full unless
given. Without --test-labels, and for features without test.npz, the table shows validation mAP, on
which the runs were also chosen.

For every method, setting and seed the learning rate, batch size and weight are chosen on
validation. All runs train for all their epochs. OUTPUT gets results.json (the chosen runs),
results.csv (mAP, CF1, OF1), differences.csv (all pairs of methods with 95 % intervals by paired
bootstrap), cells.jsonl (all runs) and report.html. The same command again resumes, also with more
methods, settings or seeds added at the end. A diverged run is recorded and never chosen.
"""

import argparse
from pathlib import Path
from typing import Any

from g2netpl.commands.flags import add_config_flags, add_plugin_flag, split_list
from g2netpl.commands.grid import add_grid_flags, begun, grid_settings, image_keys, sweep_of
from g2netpl.experiments.cells import run_sweep
from g2netpl.experiments.data import ArrayData, Data, find_dataset, load_array_data
from g2netpl.experiments.statistics import differences
from g2netpl.experiments.sweep import (
    CELLS,
    Row,
    Sweep,
    check_some_trained,
    choose,
    read_cells,
)
from g2netpl.reports.comparison import write_comparison_report
from g2netpl.reports.tables import results_table, shown_method, summarise
from g2netpl.runs.config import RunConfig
from g2netpl.runs.prior import find_prior
from g2netpl.runs.records import Result
from g2netpl.runs.train_config import USUAL_EPOCHS
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import write_json
from g2netpl.utils.progress import Work
from g2netpl.utils.signals import AGAIN, stoppable

_KEPT = (*Result.__annotations__, "cf1", "of1", "diverged")  # in results.json


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("data (default: the built-in scenes)")
    data = group.add_mutually_exclusive_group()
    data.add_argument("--features", metavar="FOLDER", help="folder of g2netpl features")
    add_config_flags(data, ("labels",))
    add_config_flags(group, ("images", "test_labels"))
    epochs = f"epochs (default: {USUAL_EPOCHS})"
    mode = "trained layers: linear, partial, lp-ft or full (default: full)"
    rates, batches = "1e-3,3e-4; images 3e-4,1e-4", "64; images 16"
    group = add_grid_flags(parser, rates, batches, epochs=epochs, mode=mode)
    methods = "methods, with options if needed, such as an,epr:regulariser=0.1,gr:slope=(0,2)"
    group.add_argument("--methods", required=True, help=methods)
    settings = "labels to hide, such as full,fspl,sspl:0.2,positives:1+1,known:0.1"
    group.add_argument("--settings", required=True, help=settings)
    add_config_flags(group, ("prior",))
    add_plugin_flag(group)


@stoppable(AGAIN)
def run(flags: argparse.Namespace) -> None:
    """Train what is missing, write the files, print the table."""
    given, config = grid_settings(flags, {"epochs": USUAL_EPOCHS})
    data, console = _data(flags, given, config), Console()
    named = config.model_copy(update={"backbone": data.keys.get("backbone", config.backbone)})
    prior = find_prior(named, data.tables[0].classes, data.build_backbone(named))
    sweep = _sweep(flags, config, prior.kind)
    sweep.check(data)
    lines = [*data.notes(), f"prior: {prior.kind} ({prior.reason})"]
    with begun(flags, given, config, data.fingerprints):
        console.print("\n".join(lines))
        compare([sweep], data, Path(flags.output), flags.jobs, console)


def compare(
    sweeps: list[Sweep], data: Data, folder: Path, jobs: int, console: Console
) -> list[Row]:
    """Train what is missing in the folder, write all files, print the table."""
    rows, count = list[Row](), sum(len(sweep.all_cells()) for sweep in sweeps)
    with Work(console, "runs", count, len(read_cells(folder / CELLS))) as work:
        for sweep in sweeps:
            rows += run_sweep(sweep, data, folder, jobs, work)
    check_some_trained(rows)
    chosen = choose(rows)
    results = [{key: row[key] for key in _KEPT if key in row} for row in chosen]
    write_json(folder / "results.json", results)
    summarise(results).round(2).to_csv(folder / "results.csv", index=False)
    gaps = differences(chosen)
    gaps.to_csv(folder / "differences.csv", index=False)
    page = write_comparison_report(folder)
    console.print(results_table(results))
    for setting, part in gaps.groupby("setting", sort=False):
        best = part.groupby("method")["difference"].min().idxmax()
        for gap in part[part["method"] == best].itertuples():
            console.print(
                f"{setting}: {shown_method(best)} − {shown_method(gap.minus)}: "
                f"{gap.difference:+.1f} mAP (95 % interval {gap.low:+.1f} to {gap.high:+.1f})"
            )
    console.print(f"written to {folder}; open {page}")
    return chosen


def _sweep(flags: argparse.Namespace, config: RunConfig, prior: str) -> Sweep:
    """The grid; methods say in their names if they use a prior."""
    methods = split_list("--methods", flags.methods, str)
    suffix = {"names": ":prior=names", "scores": ":prior=file", "none": ""}[prior]
    deep = flags.labels is not None and config.mode != "linear"
    return sweep_of(
        flags,
        config,
        (3e-4, 1e-4) if deep else (1e-3, 3e-4),
        (16,) if deep else (64,),
        methods=tuple(name if ":prior=" in name else name + suffix for name in methods),
        settings=split_list("--settings", flags.settings, str),
        prior=config.prior if prior == "scores" else "none",
        names=config.names,
    )


def _data(flags: argparse.Namespace, given: dict[str, Any], config: RunConfig) -> Data:
    """The data of all runs."""
    keys = image_keys(given, config)
    if flags.labels is not None:
        data = find_dataset(config.labels, config.test_labels, config.images, keys)
        if isinstance(data, ArrayData):
            raise InputError(f"{data.folder}: a features folder; give it as --features")
        return data
    for name in [*keys, *({"images", "test_labels"} & given.keys())]:
        raise InputError(f"{name.replace('_', '-')}: only for images, with --labels")
    return load_array_data(flags.features)
