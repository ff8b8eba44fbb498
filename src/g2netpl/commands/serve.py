"""Predict for Label Studio, and learn from what is annotated there.

examples:
  g2netpl serve --label-studio runs/first                    as a machine learning backend
  g2netpl serve --label-studio runs/first --absent negative  what is not chosen is not there

Label Studio must run on this machine. Its project needs an <Image> and <Choices choice="multiple">
with classes of the run; Settings, Model, Connect Model takes the address that is printed. Images
are taken from the image folder by their names, never from an address.

A choice is a yes, one in a control called `absent` a no. So is a proposal that the annotator took
away, and a choice that was taken back later; the rest stays unknown, or with --absent negative is
no. Answers are on the disk, in RUN/review.jsonl, before they count. Start Training in Label Studio
trains on all of them into RUN-answered, in the background; then that one predicts.
"""

import argparse
import re
import secrets
import signal
from pathlib import Path

from g2netpl.base.errors import InputError, counted
from g2netpl.base.system import private_file
from g2netpl.commands.parsing import check_port
from g2netpl.commands.training_flags import add_config_flags, checked

PORT = 9090  # where Label Studio expects a backend


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder of g2netpl train")
    parser.add_argument(
        "--label-studio", action="store_true", required=True, help="speak its protocol"
    )
    parser.add_argument("--images", help="folder with the images (default: where the run had them)")
    parser.add_argument("--port", type=int, default=PORT, help=f"(default: {PORT})")
    add_config_flags(parser, ("absent",))


def run(flags: argparse.Namespace) -> None:
    """Serve until Ctrl-C."""
    from g2netpl.base.console import Console
    from g2netpl.images.thumbnails import Roots
    from g2netpl.review.label_studio import LabelStudioServer
    from g2netpl.review.learner import Learner
    from g2netpl.runs.records import read_training

    console, absent = Console(), checked(flags).absent
    check_port(flags.port)
    config = read_training(flags.run)["config"]
    roots = Roots.of_run(config, flags.images)
    more = () if flags.images is None else ("--images", flags.images)
    learner = Learner(flags.run, roots, console.print, more)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        roots.check(learner.review.saved.images)
        unchosen_is_no = (absent or config.get("absent")) == "negative"
        token = kept_token(Path(flags.run))
        with LabelStudioServer(learner, unchosen_is_no, flags.port, token) as server:
            images = counted(len(learner.review.saved.images), "image")
            console.print(
                f"{learner.model.version}: {images} × {len(learner.classes)} classes\n"
                f"connect {server.address}\nCtrl-C ends; answers are saved as they are given"
            )
            server.serve_forever()
    except KeyboardInterrupt:
        console.print(f"\n{learner.review.told()} saved in {learner.review.log.path}")
    finally:
        learner.close()


def kept_token(folder: Path) -> str:
    """The secret part of the address: that of earlier starts, which Label Studio knows."""
    from g2netpl.runs.folder import TOKEN

    path = folder / TOKEN
    try:
        with open(private_file(path), "w", encoding="utf-8") as file:
            file.write(secrets.token_urlsafe(32))
    except FileExistsError:
        pass
    except OSError as problem:
        raise InputError(f"{path}: cannot be written ({problem.strerror})") from None
    with open(path, encoding="utf-8", errors="replace") as file:
        found = file.read(100).strip()
    if not re.fullmatch(r"[\w-]{43}", found, re.ASCII):
        raise InputError(f"{path}: expected a token of 43 characters; remove the file")
    return found
