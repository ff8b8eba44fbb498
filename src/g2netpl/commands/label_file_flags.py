"""How label files of images are read, for commands that compare methods on them."""

import argparse

NAMES = ("missing", "max_bad", "format", "absent", "separator", "classes")


def add_label_file_flags(parser: argparse.ArgumentParser) -> None:
    """The flags called NAMES; each is None where nobody gives it."""
    add = parser.add_argument
    add("--missing", help="images: refuse listed ones that are not there, or leave-out (refuse)")
    add("--max-bad", type=int, help="images: unreadable ones to put up with (0.1 %%, 1 at least)")
    add("--format", help="images: format of the label files, if not clear")
    add("--absent", help="images: labels that a file does not name are unobserved or negative")
    add("--separator", help="images: between tags (; or |)")
    add("--classes", metavar="FILE", help="images: file with the classes there may be")
