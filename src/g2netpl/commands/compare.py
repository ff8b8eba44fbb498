"""Compare methods on frozen features, on images or on built-in scenes, over settings and seeds.

examples:
  g2netpl compare --features coco_features --methods an,wan,epr,role,g2netpl \\
      --settings fspl,sspl:0.6,sspl:0.2 --seeds 0,1,2 --output runs/coco
  g2netpl compare --features F --methods bce --settings full --seeds 0 --output runs/ceiling
  g2netpl compare --features F --methods epr,epr:regulariser=0.1,g2netpl:response=frozen \\
      --settings fspl --seeds 0 --output runs/controls
  g2netpl compare --features F --methods 'gr,gr:slope=(0,4)' --settings fspl --output runs/slopes
  g2netpl compare --features F --methods g2netpl --settings fspl --seeds 0 \\
      --set g2netpl.penalty=2 --output runs/strong
  g2netpl compare --features F --methods an,epr,em,g2netpl --settings fspl,sspl:0.2 \\
      --search-weights --choose-once --output runs/fair
  g2netpl compare --labels full.csv --images photos --methods an,epr,fixmatch,g2netpl \\
      --settings fspl,sspl:0.2 --image-size 128 --seeds 0,1 --output runs/end-to-end
  g2netpl compare --methods an,g2netpl --settings sspl:0.2 --seeds 0,1 --epochs 12 \\
      --learning-rates 3e-3 --batch-sizes 32 --output runs/scenes

With --labels networks are trained on image files as g2netpl train does, each in a folder of its own
below OUT/runs; without test labels a fifth of the images is the test. A file of complete tags is
one of full labels with --absent negative. Without --features and --labels the data are the built-in
scenes, and the network a small CNN.
For every method, setting and seed the learning rate and batch size are chosen on validation; with
--search-weights three values of each method's main weight are tried too. Every training goes
through all its epochs; none is stopped at equilibrium, as g2netpl train may. results.json has the
chosen rows, results.md and results.csv the table, cells.jsonl every training with its history, a
line each, and report.html is a page of all of it. What was broken off goes on with
--resume, and so does what is finished, with more methods, settings or seeds behind the others. A
training whose cost is no longer a number is noted as diverged, and never chosen.
"""

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from g2netpl.base.signals import Interrupts
    from g2netpl.experiments.photo_cells import PhotoData


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    from g2netpl.commands.label_file_flags import add_label_file_flags
    from g2netpl.commands.parsing import at_least_one

    add = parser.add_argument
    data = parser.add_mutually_exclusive_group()
    data.add_argument("--features", metavar="DIR", help="folder with train, test and meta.npz")
    data.add_argument("--labels", metavar="FILE", help="images: file or data set with full labels")
    add("--test-labels", metavar="FILE", help="images: label file of the test images")
    add("--images", metavar="DIR", help="images: their folder, if the format does not say")
    add("--mode", help="images: end-to-end, linear or linear-init (end-to-end)")
    add("--backbone", help="images: lite0, tiny or any timm name (lite0)")
    add("--weights", metavar="FILE", help="images: own safetensors file of the backbone")
    add("--no-pretrained", action="store_true", help="images: start at random")
    add("--image-size", type=int, help="images: squashed to this square (224)")
    add("--linear-epochs", type=int, help="images: first epochs of linear-init (25)")
    add("--device", help="images: auto (a GPU where there is one) or cpu (auto)")
    add("--precision", help="images: float32, bf16 or fp16 (float32)")
    add("--head", help="images: linear or boostlu (linear)")
    add("--workers", type=int, help="images: loader processes (2)")
    add_label_file_flags(parser)
    add(
        "--methods",
        required=True,
        help="names, each with changes if need be: an,epr:regulariser=0.1,gr:slope=(0,2); a value "
        "with commas goes in brackets",
    )
    add(
        "--settings",
        required=True,
        help="full fspl sspl:0.2 positives:1+1 known:0.1 biased:frequency",
    )
    add("--seeds", default="0,1,2", help="each drives mask, split, start and order (0,1,2)")
    add("--output", required=True, metavar="OUT", help="folder for results.json and cells.jsonl")
    add("--epochs", type=int, default=10, help="epochs per training (10)")
    add("--learning-rates", help="Adam's, chosen on validation (1e-3,3e-4; images 3e-4,1e-4)")
    add("--batch-sizes", help="chosen on validation too (64; images 16)")
    add("--hidden", type=int, default=0, help="width of a hidden layer; 0: linear (0)")
    add("--set", action="append", default=[], metavar="METHOD.KEY=VALUE", help="change an option")
    add(
        "--expected-positives",
        default="truth",
        metavar="K",
        help="truth (the training truth's mean, as in the protocol), estimate, or a number",
    )
    add(
        "--jobs",
        type=at_least_one,
        default=os.cpu_count() or 1,
        help="features, scenes: trainings at a time (all cores); on images it is one",
    )
    add("--search-weights", action="store_true", help="try 3 values of each method's main weight")
    add(
        "--choose-once",
        action="store_true",
        help="choose on the first seed alone, and train the other seeds with that",
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with the comparison in OUT")
    again.add_argument("--overwrite", action="store_true", help="replace the comparison in OUT")


def run(flags: argparse.Namespace) -> None:
    """Train all cells, write the files, print the table."""
    from g2netpl.base.signals import Interrupts

    with Interrupts() as interrupts:
        _compare(flags, interrupts)


def _compare(flags: argparse.Namespace, interrupts: "Interrupts") -> None:
    from pathlib import Path

    from g2netpl.base.console import Console
    from g2netpl.base.disk import write_json, write_text_whole
    from g2netpl.base.errors import InputError
    from g2netpl.base.signals import AGAIN
    from g2netpl.commands.parsing import expected_positives, split_changes, split_list
    from g2netpl.experiments.cells import choose
    from g2netpl.experiments.compare import cell_of, in_memory, sweep
    from g2netpl.experiments.data import load_array_data
    from g2netpl.experiments.grid import Comparison
    from g2netpl.reports.comparison import write_comparison_report
    from g2netpl.reports.tables import (
        RESULT_COLUMNS,
        result_lines,
        results_markdown,
        results_tables,
        write_csv,
    )
    from g2netpl.runs.ownership import begin_or_resume
    from g2netpl.training.divergence import check_some_trained
    from g2netpl.training.equilibrium import restless, restless_words

    changes = split_changes(flags.set)
    methods = split_list("--methods", flags.methods, str)
    for method, key, _ in changes:
        if method is None or method not in {name.split(":")[0] for name in methods}:
            raise InputError(
                f"--set {method}.{key}: expected one of the compared methods, then .key"
            )
    deep = flags.labels is not None and flags.mode != "linear"
    if flags.learning_rates is None:
        flags.learning_rates = "3e-4,1e-4" if deep else "1e-3,3e-4"
    if flags.batch_sizes is None:
        flags.batch_sizes = "16" if deep else "64"
    comparison = Comparison(
        features=flags.features,
        methods=methods,
        settings=split_list("--settings", flags.settings, str),
        seeds=split_list("--seeds", flags.seeds, int),
        learning_rates=split_list("--learning-rates", flags.learning_rates, float),
        batch_sizes=split_list("--batch-sizes", flags.batch_sizes, int),
        epochs=flags.epochs,
        hidden=flags.hidden,
        expected_positives=expected_positives(flags.expected_positives),
        changes=tuple((method or "", key, value) for method, key, value in changes),
        search_weights=flags.search_weights,
        choose_once=flags.choose_once,
    )
    folder = Path(flags.output)  # mistakes show before anything is written there
    photos = _photos(flags)
    lines = [
        f"note: {method} gets one weight, others three: its row in METHODS has no grid"
        for method in comparison.without_grid()
    ]
    if photos is None:
        arrays = load_array_data(flags.features)
        comparison.check(arrays.train, arrays.test)
        fingerprints = arrays.fingerprints
    else:
        lines += photos.check(comparison)
        fingerprints = photos.parts.fingerprints
    description = {key: value for key, value in vars(flags).items() if key not in _NOT_KEPT}
    description["label_format"] = description.pop("format")  # run.json has one of its own
    description["fingerprints"] = fingerprints
    console = Console()
    with begin_or_resume(
        folder,
        "compare",
        description,
        resume=flags.resume,
        overwrite=flags.overwrite,
        lists=("methods", "settings", "seeds"),
    ) as old:
        for line in lines:
            console.print(line, highlight=False)
        advice = f"{AGAIN} and --resume"
        replaces = old is not None and old.waits
        if not replaces:
            interrupts.begun(advice)

        def on_kept() -> None:
            if old is not None:
                old.drop()
            interrupts.begun(advice)

        on_saved = on_kept if replaces else None
        runner = in_memory(flags.jobs) if photos is None else photos.runner(folder, on_saved)
        cells = sweep(comparison, folder, runner, console, advice, on_kept)
        check_some_trained(row.get("diverged") for row in cells)
        results = choose(cells)
        write_json(folder / "results.json", results)
        write_text_whole(folder / "results.md", results_markdown(results))
        write_csv(folder / "results.csv", RESULT_COLUMNS, result_lines(results))
        page = write_comparison_report(folder)
    for table in results_tables(results, console.width):
        console.print(table)
    chosen = {cell_of(row) for row in results}
    for row in cells:
        if cell_of(row) in chosen and restless(row.get("history", ())):
            named = f"{row['method']} {row['setting']} seed {row['seed']}"
            console.print(f"note: {named}: {restless_words(row['history'])}", highlight=False)
    console.print(f"written to {folder}; open {page}", highlight=False)


_NOT_KEPT = {"execute", "output", "jobs", "workers", "device", "max_bad", "resume", "overwrite"}
_OF_IMAGES = (
    *("test_labels", "images", "mode", "backbone", "weights", "no_pretrained", "image_size"),
    *("linear_epochs", "head", "workers", "device", "precision"),
)


def _photos(flags: argparse.Namespace) -> "PhotoData | None":
    """What is trained on image files; None on features or scenes."""
    from g2netpl.base.errors import InputError
    from g2netpl.commands.label_file_flags import NAMES
    from g2netpl.experiments.data import find_dataset
    from g2netpl.experiments.photo_cells import PhotoData

    values = {name: getattr(flags, name) for name in (*_OF_IMAGES, *NAMES)}
    given = {k: value for k, value in values.items() if value is not None and value is not False}
    if flags.labels is None:
        for name in given:
            raise InputError(f"--{name.replace('_', '-')}: for images, with --labels")
        return None
    dataset = find_dataset(flags.labels, flags.test_labels, flags.images)
    if dataset.kind != "images":
        raise InputError(f"{flags.labels}: a features folder; give it as --features")
    more = {name: value for name, value in given.items() if name not in ("test_labels", "images")}
    if more.pop("no_pretrained", False):
        more["pretrained"] = False
    return PhotoData(dataset, {"mode": "end-to-end", **more})
