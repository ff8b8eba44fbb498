"""Look at a label file and its images, and tell everything that is wrong or odd, in one pass.

examples:
  g2netpl check --labels labels.csv --images photos
  g2netpl check --labels labels.csv --images photos --html check.html --problems problems.csv
  g2netpl check --labels tags.csv --images photos --no-decode    quickly: do the images exist?

Exit code 0: a training may begin. 2: it would be refused, the reasons are shown.
"""

import argparse
from typing import TYPE_CHECKING

from g2netpl.base.errors import InputError, counted

if TYPE_CHECKING:
    from g2netpl.base.console import Console
    from g2netpl.images.inspection import Inspection

_SHOWN = 20


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    from g2netpl.commands.labelling import READING
    from g2netpl.commands.training_flags import add_config_flags

    taken = ("labels", "images", "max_bad", "workers", *READING)
    add_config_flags(parser, taken, required=("labels",))
    parser.add_argument("--no-decode", action="store_true", help="do not decode the images")
    parser.add_argument("--html", metavar="FILE", help="write a page")
    parser.add_argument("--problems", metavar="FILE", help="write all problems as CSV")
    parser.add_argument("--overwrite", action="store_true", help="replace the page and the CSV")


def run(flags: argparse.Namespace) -> None:
    """Inspect, show, and fail where a training would."""
    from g2netpl.base.console import Console
    from g2netpl.commands.labelling import check_target, share_of_labels
    from g2netpl.commands.training_flags import checked
    from g2netpl.images.inspection import inspect_images, inspect_labels, write_problems
    from g2netpl.training.progress import image_bar

    console, config = Console(), checked(flags)
    for target, ending in ((flags.html, ".html"), (flags.problems, ".csv")):
        if target is not None:
            check_target(target, (ending,), flags.overwrite and target != flags.labels)
    found = inspect_labels(flags.labels, config.format, config.reading())
    if found.table is not None:
        with image_bar(console, "looking at images", len(found.table)) as advance:
            inspect_images(
                found,
                config.images,
                config.format,
                config.workers,
                config.max_bad,
                advance,
                decode=not flags.no_decode,
            )
    _show(console, found)
    if flags.problems is not None:
        write_problems(found, flags.problems)
        console.print(f"all problems: {flags.problems}", highlight=False)
    if flags.html is not None:
        from g2netpl.images.inspection import by_kind
        from g2netpl.reports.page import write_page

        write_page(
            flags.html,
            "check.html",
            found=found,
            share=None if found.table is None else share_of_labels(found.table),
            ranked=sorted(found.classes, key=lambda each: -each.positive),
            problems=[("Errors", by_kind(found.errors)), ("Warnings", by_kind(found.warnings))],
        )
        console.print(f"page: {flags.html}", highlight=False)
    if found.errors:
        raise InputError(
            f"{flags.labels}: {counted(len(found.errors), 'error')}; "
            f"the first: {found.errors[0].where}: {found.errors[0].what}"
        )
    unseen = "; the images were not decoded" if flags.no_decode else ""
    console.print(f"a training may begin{unseen}", highlight=False)


def _show(console: "Console", found: "Inspection") -> None:
    from rich.table import Table

    from g2netpl.base.terminal import shown
    from g2netpl.commands.labelling import share_of_labels
    from g2netpl.images.inspection import by_kind

    if found.table is not None:
        console.print(share_of_labels(found.table), highlight=False)
        table = Table("class", "positive", "negative", "unknown", box=None, pad_edge=False)
        for column in table.columns[1:]:
            column.justify = "right"
        ranked = sorted(found.classes, key=lambda each: -each.positive)
        listed = ranked if len(ranked) <= 2 * _SHOWN else ranked[:_SHOWN] + ranked[-_SHOWN:]
        for each in listed:
            table.add_row(
                shown(each.name), f"{each.positive:,}", f"{each.negative:,}", f"{each.unknown:,}"
            )
        console.print(table)
        if len(listed) < len(ranked):
            console.print(
                f"(the {_SHOWN} most and the {_SHOWN} least frequent of {len(ranked)} classes)",
                highlight=False,
            )
    for fact in found.facts:
        console.print(shown(fact), highlight=False)
    for severity, problems in (("error", found.errors), ("warning", found.warnings)):
        left = _SHOWN
        for kind, group in by_kind(problems).items():
            console.print(f"{severity}: {kind}: {len(group):,}", highlight=False)
            for problem in group[: min(left, 5)]:
                console.print(shown(f"  {problem.where}: {problem.what}"), highlight=False)
            left = max(left - 5, 0)
            if len(group) > 5 or left == 0:
                console.print("  … (--problems FILE writes all)", highlight=False)
