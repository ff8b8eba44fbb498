"""Look at images with their labels on a local page, and confirm or refuse what a run proposes.

examples:
  g2netpl review runs/first                                 the most useful questions first
  g2netpl review runs/first --order doubtful --limit 200    observed labels that look wrong
  g2netpl review runs/first --classes dog "traffic light"   only about these
  g2netpl review runs/first --ask photos                    a photo at a time, with its likely tags
  g2netpl review runs/first --export labels.csv             what is known now, to train on again

The page asks one question at a time: Y yes, N no, S skip, U undo. With --ask photos it shows a
photo with its likely classes: 1 to 9 set them right, Enter saves, 0 says that nothing else is
there, / finds another class. An answer is on the disk, in RUN/review.jsonl, before it counts as
saved; Ctrl-C ends. The page is for this machine alone, and for those who have the address with its
token.

Orders: useful (in doubt, rare classes first), disagreement (soft label and prediction differ),
doubtful (observed labels that look wrong), random (a control).

g2netpl train --resume-labels RUN --output NEW goes on with the game of RUN, with the answers as
observed labels. --export writes the labels that the run knew with what was decided since, and
beside them, in a file that ends in .provenance.csv, which labels were decided, when, and what they
were before.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from g2netpl.base.disk import DiskTrouble
from g2netpl.base.errors import counted
from g2netpl.base.system import STOPS, private_file
from g2netpl.base.terminal import quoted
from g2netpl.commands.labelling import check_target, format_flag, share_of_labels, write_new
from g2netpl.commands.parsing import check_port

if TYPE_CHECKING:
    from g2netpl.base.console import Console
    from g2netpl.review.server import ReviewServer
    from g2netpl.review.session import Review

_ORDERS = ("useful", "disagreement", "doubtful", "random")


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder of g2netpl train")
    parser.add_argument("--images", help="folder with the images (default: where the run had them)")
    parser.add_argument(
        "--ask",
        choices=("labels", "photos"),
        default="labels",
        help="labels: is this class in the picture; photos: which classes are (default: labels)",
    )
    parser.add_argument(
        "--order", choices=_ORDERS, default="useful", help="of the questions (default: useful)"
    )
    parser.add_argument("--classes", nargs="+", metavar="NAME", help="ask about these alone")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="end after N answers, earlier ones included"
    )
    parser.add_argument("--seed", type=int, default=0, help="of random questions (default: 0)")
    parser.add_argument("--port", type=int, default=0, help="of the page (default: any free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--export", metavar="FILE", help="write a label file instead, and end")
    parser.add_argument("--to", metavar="FORMAT", help="format of --export (default: by its name)")
    parser.add_argument("--overwrite", action="store_true", help="replace the exported file")


def run(flags: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C, or export."""
    from g2netpl.base.console import Console
    from g2netpl.base.options import check_range

    console = Console()
    if flags.export is not None:
        _export(flags, console)
        return
    check_range("--limit", flags.limit, 1)
    check_range("--seed", flags.seed, 0)
    check_port(flags.port)
    _serve(flags, console)


def _serve(flags: argparse.Namespace, console: "Console") -> None:
    from g2netpl.images.thumbnails import Pictures, Roots
    from g2netpl.review.photos import PhotoReview
    from g2netpl.review.server import PhotoServer, ReviewServer
    from g2netpl.review.session import Review
    from g2netpl.runs.records import read_training

    roots = Roots.of_run(read_training(flags.run)["config"], flags.images)
    kind, serve = (PhotoReview, PhotoServer) if flags.ask == "photos" else (Review, ReviewServer)
    review = kind(flags.run, flags.classes, flags.limit, flags.seed)
    try:
        roots.check(review.saved.images)
        review.questions(flags.order, 1)  # put in order before anybody waits; refuses early
        pictures = Pictures(review.saved.images, roots)
        server = serve(review, pictures, flags.order, flags.port)
        if review.log.is_torn:
            console.print(
                f"warning: the last line of {review.log.path} is incomplete after a crash and is "
                "skipped; answers before it are complete"
            )
        with server:
            _wait(review, server, console, open_browser=not flags.no_browser)
    finally:
        review.close()


def _wait(
    review: "Review", server: "ReviewServer", console: "Console", *, open_browser: bool
) -> None:
    """Serve until somebody ends it; then say what was saved."""
    before = review.progress()["answered"]
    page = review.folder / "review-open.html"
    for number in STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, signal.default_int_handler)
    try:
        if before:
            console.print(f"{counted(before, 'answer')} from before")
        console.print(f"open {server.address}\nCtrl-C ends; answers are saved as they are given")
        if open_browser:
            _open(server.address, str(page))
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        if open_browser:
            page.unlink(missing_ok=True)
    review.close()
    if review.log.trouble is not None:
        raise DiskTrouble(review.log.trouble)
    folder = quoted(review.folder)
    answered = review.progress()["answered"]
    if not answered:
        console.print(f"\nno answers yet; to go on: g2netpl review {folder}")
        return
    console.print(
        f"\n{counted(answered, 'answer')} saved in {review.log.path}: {review.told()}\n"
        f"to train with them: g2netpl train --resume-labels {folder} --output NEW_FOLDER\n"
        f"as a label file: g2netpl review {folder} --export labels.csv"
    )


def _open(address: str, page: str) -> None:
    """Show the page in the browser, by a file for our eyes only: others can read command lines."""
    import webbrowser

    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return
    Path(page).unlink(missing_ok=True)
    with open(private_file(page), "w", encoding="utf-8") as file:
        file.write(
            f'<!doctype html><title>g2netpl review</title><meta http-equiv="refresh" '
            f'content="0; url={address}"><a href="{address}">g2netpl review</a>\n'
        )
    webbrowser.open(Path(page).resolve().as_uri())


def _export(flags: argparse.Namespace, console: "Console") -> None:
    from g2netpl.labels.observation import look
    from g2netpl.runs import answers
    from g2netpl.runs.run import Run

    target = Path(flags.export)
    beside = target.with_name(f"{target.stem}.provenance.csv")
    check_target(str(beside), None, flags.overwrite)
    run = Run.open(flags.run)
    decisions = answers.read_decisions(flags.run)
    before = run.observed()
    table = answers.apply_decisions(before, decisions, run.config.one_of)
    for note in write_new(table, flags.export, flags.to, flags.overwrite):
        console.print(f"note: {note}")
    count = answers.write_provenance(before, decisions, beside)
    changed = int((table.values != before.values).sum())
    held_out = run.about["data"]["training_images"] < run.about["data"]["images"]
    k = run.expected_positives
    is_mistaken = run.observation == "draw" != look(table.values, k)[0]
    draw = " --observation draw" if is_mistaken else ""
    console.print(
        f"{share_of_labels(table)}\n{counted(count, 'label')} decided by review, {changed:,} of "
        f"them new or changed\nwritten to {target} and {beside}\nto train on it: g2netpl train "
        f"--labels {quoted(target)}{format_flag(flags.export, flags.to)} "
        f"--expected-positives {k:.2f}"
        f"{'' if held_out else ' --validation 0'}{draw} … (labels that were chosen to be asked "
        "about do not tell how many positives there are)"
    )
