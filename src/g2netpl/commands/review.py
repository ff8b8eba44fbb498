"""Confirm or reject labels on a local page, one class or one photo at a time.

examples:
  g2netpl review runs/first                                 the most useful questions first
  g2netpl review runs/first --order doubtful --limit 200    observed labels that look wrong
  g2netpl review runs/first --classes dog "traffic light"   only these classes
  g2netpl review runs/first --ask photos                    a photo at a time, with likely tags
  g2netpl review runs/first --export labels.csv             labels and answers, to train on

Keys: Y yes, N no, S skip, U undo. With --ask photos: 1 to 9 switch tags, Enter saves, 0 saves and
rejects all other classes, / finds another class. Every answer is in RUN/review.jsonl before the
page shows it as saved. Ctrl-C ends. Only this machine can open the page, with the printed address.

Orders: useful (uncertain, rare classes first), disagreement (pseudo-label and prediction differ),
doubtful (observed labels that look wrong), random (a control).

To train with the answers: g2netpl train --continue-from RUN --output NEW.
"""

import argparse
import os
import signal
import sys
import webbrowser
from pathlib import Path

from g2netpl.commands.flags import add_overwrite_flag
from g2netpl.commands.writing import PHOTO_TAGS, summary, write_table, written
from g2netpl.images.thumbnails import Pictures, Roots
from g2netpl.labels.files import each_file
from g2netpl.review.server import ReviewServer
from g2netpl.review.session import STRATEGIES, ReviewSession
from g2netpl.runs import answers
from g2netpl.runs.records import read_training
from g2netpl.runs.run import Run
from g2netpl.utils.console import Console, quoted
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.signals import STOPS


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="run folder of g2netpl train")
    add("--images", metavar="FOLDER", help="folder of the images (default: as in the run)")
    asks = "question: is this class in the photo, or which classes are (default: labels)"
    add("--ask", choices=("labels", "photos"), default="labels", help=asks)
    about = "query strategy (default: useful)"
    add("--order", choices=tuple(STRATEGIES), default="useful", help=about)
    add("--classes", nargs="+", metavar="NAME", help="classes to ask about (default: all)")
    add("--limit", type=int, metavar="N", help="answers to collect, including earlier ones")
    add("--port", type=int, metavar="N", default=0, help="port of the page (default: any)")
    add("--no-browser", action="store_true", help="print the address only")
    add("--export", metavar="FILE", help="label file to write with the answers; opens no page")
    add("--to", metavar="FORMAT", help="format of --export (default: by name)")
    add_overwrite_flag(parser)
    parser.set_defaults(dry_run=False, sidecar="IMG.JPG.xmp")


def run(flags: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C, or export."""
    console = Console()
    if flags.export is not None:
        _export(flags, console)
        return
    if flags.limit is not None and flags.limit < 1:
        raise InputError(f"--limit: must be 1 or more, got {flags.limit}")
    if flags.port != 0 and not 1024 <= flags.port <= 65535:
        raise InputError(f"--port: must be 0 (any free one) or 1024 to 65535, got {flags.port}")
    roots = Roots(read_training(flags.run)["config"], flags.images)
    session = ReviewSession(flags.run, flags.ask, flags.classes, flags.limit)
    try:
        roots.check(session.saved.images)
        session.questions(flags.order, 1)  # ranks now, before anybody waits
        pictures = Pictures(session.saved.images, roots)
        with ReviewServer(session, pictures, flags.order, flags.port) as server:
            _serve(server, console, open_browser=not flags.no_browser)
    finally:
        session.close()
    folder, answered = quoted(session.folder), session.progress()["answered"]
    if not answered:
        console.print(f"\nNo answers yet. To continue: g2netpl review {folder}")
        return
    console.print(
        f"\n{counted(answered, 'answer')} saved in {session.log.path}: {session.summary()}\n"
        f"To train with them: g2netpl train --continue-from {folder} --output NEW_FOLDER\n"
        f"To write a label file: g2netpl review {folder} --export labels.csv"
    )


def _serve(server: ReviewServer, console: Console, *, open_browser: bool) -> None:
    """Serve until Ctrl-C or another signal."""
    session, page = server.session, server.session.folder / "review-open.html"
    for number in STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, signal.default_int_handler)
    try:
        if session.log.is_torn:
            console.print(
                f"warning: skipped the incomplete last line of {session.log.path}, left by a "
                "crash; earlier answers are complete"
            )
        answered = session.progress()["answered"]
        if answered:
            console.print(f"{counted(answered, 'answer')} from earlier reviews")
        console.print(f"open {server.address}\nEvery answer is saved at once. Ctrl-C ends.")
        if open_browser:
            _open(server.address, page)
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        if open_browser:
            page.unlink(missing_ok=True)


def _open(address: str, page: Path) -> None:
    """Open the page through a private file: other users can read command lines."""
    has_screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform == "linux" and not has_screen:
        return
    page.unlink(missing_ok=True)
    descriptor = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(
            f'<!doctype html><title>g2netpl review</title><meta http-equiv="refresh" '
            f'content="0; url={address}"><a href="{address}">g2netpl review</a>\n'
        )
    webbrowser.open(page.resolve().as_uri())


def _export(flags: argparse.Namespace, console: Console) -> None:
    """Write the labels with the answers."""
    run, table = Run.open(flags.run), answers.reviewed_labels(flags.run)
    for note in write_table(table, flags.export, flags):
        console.print(f"note: {note}")
    count = len(answers.latest(answers.read_decisions(flags.run)))
    changed = int((table.values != run.labels.observed).sum())
    images = run.config.images
    if images is None and run.config.format == PHOTO_TAGS:
        images = each_file(run.config.labels)[0]
    form = "" if images is None else f" --images {quoted(images)}"
    form = f" --format {PHOTO_TAGS}" if flags.to == PHOTO_TAGS else form
    k, about = run.expected_positives, run.about["data"]
    no_validation = "" if about["training_images"] < about["images"] else " --validation 0"
    console.print(
        f"{summary(table)}\n{counted(count, 'label')} answered in review, {changed:,} of "
        f"them new or changed\n{written(flags.export)}\nto train on it: g2netpl train "
        f"--labels {quoted(flags.export)} --expected-positives {k:.2f}{no_validation} "
        f"--annotation {run.annotation}{form}\n"
        "k is that of the run: reviewed labels are not a random sample, so k cannot be estimated "
        "from them."
    )
