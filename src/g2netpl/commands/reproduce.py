"""Run an experiment of the paper on your data and show our numbers beside the published ones.

examples:
  g2netpl reproduce table1 --data VOCdevkit --output runs/voc --dry-run
  g2netpl reproduce table2 --data coco_features --output runs/coco --choose-once
  g2netpl reproduce ablation --data photos.csv --images photos --mode linear --backbone lite0 \\
      --image-size 224 --learning-rates 1e-3,3e-4 --batch-sizes 64 --output runs/ablation
  g2netpl reproduce table2 --data F --methods em,g2netpl:penalty=0.5 --output runs/more
  g2netpl reproduce all --output runs/scenes --seeds 0
  g2netpl reproduce parameters --output runs/parameters

WHAT is table1, table2, ablation, convergence, semi-supervised, parameters, labels or all. --data is
a folder of VOC 2012, COCO or NUS-WIDE in its official layout, a features folder, or a label file
with full labels (a fifth of its images becomes the test, unless --test-labels names another file);
without it, the built-in scenes. On images the paper's protocol is the default: ResNet-50, 448 px,
10 epochs, 8 cells for each method; --dry-run tells how long that takes. Broken off, the same
command goes on; more --seeds and --methods may be added behind the others. The folder gets
index.html, and each table and figure as CSV and PNG.
"""

import argparse
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from g2netpl.experiments.reproduction import Plan
    from g2netpl.runs.backup import Backup


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    from g2netpl.commands.label_file_flags import add_label_file_flags
    from g2netpl.commands.parsing import at_least_one

    add = parser.add_argument
    add("what", metavar="WHAT", help="a table or figure of the paper, or all")
    add("--output", required=True, metavar="OUT", help="folder for the page and its files")
    add("--data", metavar="ROOT", help="data set, features folder or label file; without: scenes")
    add("--test-labels", metavar="FILE", help="label file of the test images")
    add("--images", metavar="DIR", help="folder of the images, if the format does not say")
    add("--published", metavar="NAME", help="VOC, COCO or NUS-WIDE (by the classes)")
    add("--methods", metavar="LIST", help="more rows for table1, table2 and semi-supervised: em,gr")
    add("--seeds", default="0,1,2", help="each drives mask, split, start and order (0,1,2)")
    add("--epochs", type=int, help="epochs per training (10; scenes 12; linear-init 5)")
    add("--learning-rates", help="chosen on validation (images: the paper's; features: 1e-3,3e-4)")
    add("--batch-sizes", help="chosen on validation (images: 8,16; features: 64)")
    add("--search-weights", action="store_true", help="try 3 values of each method's main weight")
    add("--choose-once", action="store_true", help="choose on the first seed alone")
    add("--hidden", type=int, default=0, help="width of a hidden layer; 0: none (0)")
    add("--expected-positives", default="truth", metavar="K", help="truth, estimate or a number")
    add("--mode", help="images: end-to-end, linear or linear-init (as the paper's experiment)")
    add("--backbone", default="resnet50", help="images: lite0, tiny or any timm name (resnet50)")
    add("--weights", metavar="FILE", help="images: own safetensors file of the backbone")
    add("--no-pretrained", action="store_true", help="images: start at random")
    add("--image-size", type=int, default=448, help="images: squash to this square (448)")
    add("--linear-epochs", type=int, default=25, help="images: first epochs of linear-init (25)")
    add("--workers", type=int, default=2, help="image loader processes")
    add("--device", help="images: auto (a GPU where there is one) or cpu (auto)")
    add("--precision", help="images: float32, bf16 or fp16 (float32)")
    add_label_file_flags(parser)
    add(
        "--jobs",
        type=at_least_one,
        default=os.cpu_count() or 1,
        help="features, scenes: trainings at once",
    )
    add("--dry-run", action="store_true", help="say what would be trained, and for how long")


def run(flags: argparse.Namespace) -> None:
    """Train what is missing, write the page."""
    from g2netpl.base.signals import AGAIN, Interrupts

    with Interrupts(AGAIN):
        _reproduce(flags)


def _reproduce(flags: argparse.Namespace) -> None:
    from dataclasses import replace
    from pathlib import Path

    from g2netpl.base.console import Console
    from g2netpl.experiments.data import with_test_part
    from g2netpl.experiments.durations import about, estimate_seconds
    from g2netpl.experiments.paper import data_set_of
    from g2netpl.experiments.photo_cells import OF_THE_FILE
    from g2netpl.experiments.reproduction import check, reproduce
    from g2netpl.reports.reproduction import write_page

    console = Console()
    plan = _plan(flags)
    folder = Path(flags.output)
    trainings = plan.trainings()
    for line in check(plan):
        console.print(line, highlight=False)
    for name in plan.recipes:
        for note in plan.left_out(name):
            console.print(f"{name}: {note}", highlight=False)
    if flags.dry_run:
        for training in trainings:
            console.print(str(training), highlight=False)
        seconds = estimate_seconds(plan, flags.jobs)
        console.print(f"{len(trainings):,} trainings, {about(seconds)} on this machine")
        return
    kept = {key: value for key, value in vars(flags).items() if key not in _NOT_KEPT}
    with _begun(folder, {**kept, "fingerprints": plan.fingerprints}) as old:
        if old is not None:
            old.drop()  # nothing was trained there
        if plan.dataset.kind == "images" and plan.dataset.test_labels is None:
            whole = plan.photos(next(iter(plan.recipes))).parts.whole
            dataset = with_test_part(plan.dataset, folder / "labels", whole, flags.format)
            photos = {**plan.protocol.photos, **dict.fromkeys(OF_THE_FILE)}
            plan = replace(plan, dataset=dataset, protocol=replace(plan.protocol, photos=photos))
        found = reproduce(plan, folder, flags.jobs, console)
        data = flags.published or data_set_of(plan.tables[0].classes)
        page = write_page(plan, found, data, folder)
    console.print(f"{len(trainings):,} trainings; open {page}", highlight=False)


_NOT_KEPT = {"execute", "output", "jobs", "workers", "device", "max_bad", "dry_run"}


def _begun(folder: "Path", kept: dict[str, Any]) -> "AbstractContextManager[Backup | None]":
    """Claim the folder, or go on with what is there; where nothing was trained yet, anew."""
    from g2netpl.base.errors import Refused
    from g2netpl.runs.backup import recover
    from g2netpl.runs.ownership import begin_or_resume, is_empty
    from g2netpl.runs.records import read_run

    recover(folder)
    there = (folder / "run.json").is_file()
    if not there and not is_empty(folder):
        raise Refused(f"{folder}: is not empty and holds no reproduction; choose another --output")
    trained = (folder / "index.html").is_file() or any(folder.glob("runs/*/*/run.json"))
    trained = trained or any(path.stat().st_size for path in folder.rglob("cells.jsonl"))
    anew = there and not trained and read_run(folder).get("command") == "reproduce"
    kept["label_format"] = kept.pop("format")  # run.json has one of its own
    resume = there and not anew
    lists = ("seeds", "methods")
    return begin_or_resume(folder, "reproduce", kept, resume=resume, overwrite=anew, lists=lists)


def _plan(flags: argparse.Namespace) -> "Plan":
    from g2netpl.base.errors import InputError, did_you_mean
    from g2netpl.commands.label_file_flags import NAMES
    from g2netpl.commands.parsing import expected_positives, split_list
    from g2netpl.experiments.data import find_dataset
    from g2netpl.experiments.paper import DATA_SETS, find_recipes, with_methods
    from g2netpl.experiments.reproduction import USUAL, Plan, Protocol

    if flags.published is not None and flags.published not in DATA_SETS:
        raise InputError(f"--published: {did_you_mean(flags.published, DATA_SETS)}")
    recipes = find_recipes(flags.what)
    if flags.methods is not None:
        recipes = with_methods(recipes, split_list("--methods", flags.methods, str))
    dataset = find_dataset(flags.data, flags.test_labels, flags.images)
    further = ("device", "precision", *NAMES)
    for flag in ("test_labels", "images", "mode", "weights", *further):
        if dataset.kind != "images" and getattr(flags, flag) is not None:
            name = flag.replace("_", "-")
            raise InputError(f"--{name}: for images with a label file; here are {dataset.kind}")
    _, rates, batches = USUAL[dataset.kind]
    photos: dict[str, Any] = {
        "backbone": flags.backbone,
        "image_size": flags.image_size,
        "workers": flags.workers,
        "linear_epochs": flags.linear_epochs,
        "pretrained": not flags.no_pretrained,
        "weights": flags.weights,
        "mode": flags.mode,
        **{name: getattr(flags, name) for name in further if getattr(flags, name) is not None},
    }
    protocol = Protocol(
        flags.epochs,
        rates
        if flags.learning_rates is None
        else split_list("--learning-rates", flags.learning_rates, float),
        batches
        if flags.batch_sizes is None
        else split_list("--batch-sizes", flags.batch_sizes, int),
        split_list("--seeds", flags.seeds, int),
        flags.hidden,
        flags.search_weights,
        flags.choose_once,
        expected_positives(flags.expected_positives),
        photos if dataset.kind == "images" else {},
    )
    return Plan(dataset, protocol, recipes)
