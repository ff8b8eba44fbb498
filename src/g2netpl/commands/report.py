"""Show a run or a comparison as one page that can be opened, printed and sent.

examples:
  g2netpl report runs/first
  g2netpl report runs/first --output first.html
  g2netpl report runs/first --images /mnt/photos               the photos have moved
  g2netpl report runs/first --no-gallery                       no photos on the page
  g2netpl report runs/which                                    a folder of g2netpl compare

Of a training: what was trained on what, a table of all classes, learning curves, both players over
the epochs, the soft labels of each epoch, reliability, precision and recall, and labels to look at:
the surest new positives, disputed ones, observed ones that the network doubts. While a training
goes on, its curves so far. The page is one file and loads nothing. Without --output it is
report.html in RUN (comparison.html for a demo, whose report.html also shows scenes).
"""

import argparse

from g2netpl.base.errors import InputError
from g2netpl.commands.labelling import check_target


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="folder of g2netpl train, compare or demo")
    add("--output", metavar="FILE", help="page to write, .html (default: report.html in RUN)")
    add("--overwrite", action="store_true", help="replace the file of --output")
    add("--images", metavar="DIR", help="folder of the photos (default: as in the run)")
    add("--no-gallery", action="store_true", help="leave out the labels to look at")


def run(flags: argparse.Namespace) -> None:
    """Read the folder, write the page."""
    from g2netpl.base.console import Console
    from g2netpl.runs.records import read_run

    if flags.output is not None:
        check_target(flags.output, (".html", ".htm"), flags.overwrite)
    kind = read_run(flags.run)["command"]
    if kind == "train":
        from g2netpl.reports.run import write_run_report

        path = write_run_report(
            flags.run, flags.output, images=flags.images, gallery=not flags.no_gallery
        )
    elif kind in ("compare", "demo"):
        from g2netpl.reports.comparison import write_comparison_report

        if flags.images is not None:
            raise InputError(f"--images: only for a run of g2netpl train; {flags.run} is none")
        path = write_comparison_report(flags.run, flags.output)
    else:
        raise InputError(
            f"{flags.run}: was written by 'g2netpl {kind}'; expected a folder of train, compare "
            "or demo"
        )
    console = Console()
    console.print(f"page: {path}")
