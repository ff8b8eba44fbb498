"""Write a trained classifier as one ONNX file that runs without PyTorch, and its model card.

examples:
  g2netpl export runs/first --output birds.onnx
  g2netpl export runs/first --output birds.onnx --licence CC-BY-4.0 --card README.md
  g2netpl export runs/first --output birds.onnx --images photos     checked on your own photos
  g2netpl export runs/first --output birds               a folder as Hugging Face's hub has it
  g2netpl export runs/first --output birds --hub me/birds --licence CC-BY-4.0
  g2netpl predict birds.onnx --images new-photos --output scores.csv

The file holds the network, the classes, the preprocessing, the calibration and the thresholds. It
is written only if onnxruntime and PyTorch agree on all scores to 1e-4. A folder gets model.onnx,
README.md and config.json; --hub puts these three there, into a repository that is private if it is
new, by your login (hf auth login) or HF_TOKEN.
"""

import argparse
from importlib import import_module
from pathlib import Path

from g2netpl.commands.labelling import check_target
from g2netpl.images.sources import list_images, locate
from g2netpl.runs import hub
from g2netpl.runs.records import read_training
from g2netpl.runs.run import load_run
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import write_text, writing
from g2netpl.utils.signals import NOTHING_KEPT, stoppable


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder of g2netpl train")
    parser.add_argument("--output", required=True, help="bundle to write, .onnx, or a folder")
    parser.add_argument(
        "--card", metavar="FILE", help="model card to write, .md (default: beside the bundle)"
    )
    parser.add_argument(
        "--licence", metavar="NAME", help="of the classifier, for the card: Apache-2.0, CC-BY-4.0 …"
    )
    parser.add_argument(
        "--images",
        metavar="FOLDER",
        help="check the bundle on up to 100 of these photos (default: on drawn pictures)",
    )
    parser.add_argument("--hub", metavar="OWNER/NAME", help="put the folder on Hugging Face's hub")
    parser.add_argument("--overwrite", action="store_true", help="replace the bundle and the card")


@stoppable(NOTHING_KEPT)
def run(flags: argparse.Namespace) -> None:
    """Export, check, write the card."""
    read_training(flags.run)  # a wrong folder is told before imports that take seconds
    for package in ("onnx", "onnxscript"):  # asked for first: their extra brings all others
        import_module(package)

    from g2netpl.runs.card import make_card, one_line
    from g2netpl.runs.export import export

    console = Console()
    output = Path(flags.output)
    is_folder = output.is_dir() or not output.suffix
    bundle = output / hub.MODEL if is_folder else output
    card = flags.card or str(output / hub.CARD if is_folder else output.with_suffix(".md"))
    for target, ending in ((str(bundle), ".onnx"), (card, ".md")):
        check_target(target, (ending,), flags.overwrite)
    if is_folder:
        check_target(str(output / hub.CONFIG), None, flags.overwrite)
    if flags.hub is not None:
        if not is_folder or flags.card is not None:
            raise InputError("--hub: needs a folder in --output, and no --card")
        hub.check_login(flags.hub)
    licence = None if flags.licence is None else one_line(flags.licence)
    photos: list[str] = []
    if flags.images is not None:
        names = list_images(flags.images)
        if not names:
            raise InputError(f"{flags.images}: no images there")
        step = -(-len(names) // 100)
        photos = locate(names[::step], flags.images)
    trained = load_run(flags.run)
    exported = export(trained, bundle, photos)
    text = make_card(trained, exported, bundle.name, licence, output.stem, flags.hub)
    with writing(card):
        write_text(card, text, "backslashreplace")
        if is_folder:
            about = exported.contents
            config = hub.config_text(about.classes, about.image_size, about.one_of)
            write_text(output / hub.CONFIG, config)
    console.print(
        f"{len(trained.classes)} classes, {exported.size / 1e6:.1f} MB; scores of onnxruntime and "
        f"PyTorch differ by {exported.difference:.1e} at most, over {exported.images} images\n"
        f"SHA-256 {exported.sha256}\nwritten to {bundle} and {card}"
    )
    if flags.hub is not None:
        console.print(f"put on the hub: {hub.push(output, flags.hub)}")
