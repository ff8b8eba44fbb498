"""Write a trained classifier as one ONNX file that runs without PyTorch, and its model card.

examples:
  g2netpl export runs/first --output birds.onnx --license CC-BY-4.0
  g2netpl export runs/first --output birds --hub me/birds --license CC-BY-4.0

The file holds the network, the classes, the preprocessing, the calibration and the thresholds. It
is written only if onnxruntime and PyTorch agree on all scores to 1e-4. The card is next to it. A
folder gets model.onnx, README.md and config.json; --hub uploads these three. A new repository is
private. Log in first (hf auth login, or HF_TOKEN).
"""

import argparse
from pathlib import Path

import onnxscript  # noqa: F401, torch imports it only when it exports

from g2netpl.commands.flags import add_overwrite_flag
from g2netpl.commands.writing import check_target
from g2netpl.runs import bundle as hub
from g2netpl.runs.export import export, make_card
from g2netpl.runs.run import load_run
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.files import write_bytes, write_text, writing
from g2netpl.utils.signals import NOTHING_KEPT, stoppable


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="run folder of g2netpl train")
    add("--output", metavar="FILE", required=True, help="ONNX file to write, or a folder")
    add("--license", metavar="NAME", help="license, such as Apache-2.0 or CC-BY-4.0")
    add("--hub", metavar="OWNER/NAME", help="Hugging Face repository to upload the folder to")
    add_overwrite_flag(parser)


@stoppable(NOTHING_KEPT)
def run(flags: argparse.Namespace) -> None:
    """Export, check, write the card."""
    console, output = Console(), Path(flags.output)
    is_folder = output.is_dir() or not output.suffix
    bundle = output / hub.MODEL if is_folder else output
    card = str(output / hub.CARD if is_folder else output.with_suffix(".md"))
    for target, ending in ((str(bundle), ".onnx"), (card, ".md")):
        check_target(target, (ending,), flags.overwrite)
    if is_folder:
        check_target(str(output / hub.CONFIG), None, flags.overwrite)
    if flags.hub is not None:
        if not is_folder:
            raise InputError("--hub: needs a folder as --output")
        hub.check_login(flags.hub)
    trained = load_run(flags.run)
    exported = export(trained, bundle)
    text = make_card(trained, exported, bundle.name, flags.license, output.stem, flags.hub)
    with writing(card):
        write_bytes(Path(card), text.encode(errors="backslashreplace"))
        if is_folder:
            about = exported.contents
            config = hub.config_text(about.classes, about.image_size, about.single_label)
            write_text(output / hub.CONFIG, config)
    console.print(
        f"{counted(len(trained.classes), 'class')}, {exported.size / 1e6:.1f} MB; scores of "
        f"onnxruntime and PyTorch differ by {exported.difference:.1e} at most\n"
        f"SHA-256 {exported.sha256}\nwritten to {bundle} and {card}"
    )
    if flags.hub is not None:
        console.print(f"uploaded: {hub.push(output, flags.hub)}")
