"""Predict for Label Studio, and learn from what is annotated there.

examples:
  g2netpl serve --label-studio runs/first                    as a machine learning backend
  g2netpl serve --label-studio runs/first --absent negative  what is not chosen is not there

Label Studio must run on this machine. Its project needs an <Image> and <Choices choice="multiple">
with classes of the run; Settings, Model, Connect Model takes the address that is printed. It is new
at each start, unless the environment variable G2NETPL_TOKEN gives its secret part (43 letters,
digits, - or _). Images are taken from the image folder by their names, never from an address.

A choice is a yes, one in a control called `absent` a no. So is a proposal that the annotator took
away, and a choice that was taken back later; the rest stays unknown, or with --absent negative is
no. Answers are on the disk, in RUN/review.jsonl, before they count. Start Training in Label Studio
trains on all of them into RUN-answered, in the background; then that one predicts.
"""

import argparse
import os
import re
import signal

from g2netpl.base.errors import InputError, counted
from g2netpl.commands.parsing import check_port
from g2netpl.commands.training_flags import add_config_flags, checked

PORT = 9090  # where Label Studio expects a backend
_TOKEN = "G2NETPL_TOKEN"


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
    token = chosen_token()
    config = read_training(flags.run)["config"]
    roots = Roots.of_run(config, flags.images)
    more = () if flags.images is None else ("--images", flags.images)
    learner = Learner(flags.run, roots, console.print, more)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        roots.check(learner.review.saved.images)
        unchosen_is_no = (absent or config.get("absent")) == "negative"
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


def chosen_token() -> str | None:
    """The secret part of the address, if the environment gives it; nothing of a run folder does."""
    token = os.environ.get(_TOKEN)
    if token is not None and not re.fullmatch(r"[\w-]{43}", token, re.ASCII):
        raise InputError(f"{_TOKEN}: expected 43 letters, digits, - or _")
    return token
