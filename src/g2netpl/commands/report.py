"""Write the report of a run or a comparison: one HTML file that opens anywhere.

examples:
  g2netpl report runs/first
  g2netpl report runs/first --output first.html
  g2netpl report runs/which                          a folder of g2netpl compare

The report of a run answers first: how good is it, which classes are weak, what was added, what to
look at. Then: labels to check with their photos, all classes, metrics, training curves, settings.
The report of an unfinished run has its curves so far. A report loads nothing from the network.
"""

import argparse

from g2netpl.commands.flags import add_overwrite_flag
from g2netpl.commands.writing import check_target
from g2netpl.reports.comparison import write_comparison_report
from g2netpl.reports.run import write_run_report
from g2netpl.runs.records import read_run
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="folder of g2netpl train or compare")
    add("--output", metavar="FILE", help="report to write, .html (default: report.html in RUN)")
    add_overwrite_flag(parser)
    add("--images", metavar="FOLDER", help="folder of the photos (default: as in the run)")
    add("--no-gallery", action="store_true", help="leave out the photos")


def run(flags: argparse.Namespace) -> None:
    """Write the report of the folder."""
    if flags.output is not None:
        check_target(flags.output, (".html", ".htm"), flags.overwrite)
    kind = read_run(flags.run)["command"]
    if kind == "train":
        where = {"images": flags.images, "gallery": not flags.no_gallery}
        path = write_run_report(flags.run, flags.output, **where)
    elif kind == "compare":
        if flags.images is not None:
            raise InputError(f"--images: only for a run of train; {flags.run} is a comparison")
        path = write_comparison_report(flags.run, flags.output)
    else:
        raise InputError(
            f"{flags.run}: was written by 'g2netpl {kind}'; expected a folder of train or compare"
        )
    Console().print(f"report: {path}")
