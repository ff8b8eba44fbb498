"""Where the images of a label file are: names below a folder, and nothing outside of it."""

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from g2netpl.labels.names import match_filenames, name_problem
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.image_refs import can_read_raw

SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".gif", ".bmp", ".dib", ".tif", ".tiff"),
    *(".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".ico", ".jp2", ".j2k", ".avif"),
    *(".heic", ".heif", ".hif"),
)
RAW_SUFFIXES = (  # of cameras; rawpy reads the preview in most of them
    *(".dng", ".raw", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".sr2", ".srf", ".raf"),
    *(".orf", ".rw2", ".pef", ".srw", ".x3f", ".3fr", ".rwl", ".iiq", ".erf", ".mrw", ".mdc"),
    *(".kdc", ".dcr", ".dcs", ".k25", ".mef", ".mos", ".fff", ".gpr", ".bay", ".cap", ".ptx"),
    *(".rwz", ".drf", ".ari", ".ori", ".eip"),
)
_SYSTEM = ("@eadir", "@recycle", "#recycle", "#snapshot", "$recycle.bin", "__macosx", "lost+found")
UNREAD_SUFFIXES = (".jxl", ".psd")  # of photos that cannot be read


@dataclass(frozen=True)
class Located:
    """Where named images are: a path for each, and which of them are not there."""

    paths: list[str]
    missing: list[int]
    names: list[str]  # of the files, where they were found by another name: see `names`
    notes: list[str]


def find(names: Sequence[str], root: str | Path, exactly: bool = False) -> Located:
    """Look for the named images below `root`; a name that leads out of it is rejected.

    If no file has a name, one that people may mean by it is taken (see `names`), unless it is
    to be `exactly` that.
    """
    root = os.fspath(root)
    if not os.path.isdir(root):
        raise InputError(f"{root}: no such image folder")
    inside: dict[str, bool] = {}  # folders that were looked at
    paths: list[str] = []
    missing = []
    for row, name in enumerate(names):
        problem = name_problem(name)
        if problem is not None:
            raise InputError(f"image {name!r}: {problem}")
        path = os.path.join(root, name)
        paths.append(path)
        folder = os.path.dirname(path)
        try:
            if folder not in inside:
                inside[folder] = is_below(folder, root)
            kind = os.lstat(path).st_mode
            if not inside[folder] or (stat.S_ISLNK(kind) and not is_below(path, root)):
                raise InputError(f"image {name!r}: leads out of the image folder {root}")
            if stat.S_ISLNK(kind):
                kind = os.stat(path).st_mode
        except (OSError, ValueError):  # not there, too long a name, a loop of links
            missing.append(row)
            continue
        if not stat.S_ISREG(kind):
            raise InputError(f"image {name!r}: not a regular file in {root}")
    located = Located(paths, missing, list(names), [])
    if not missing or exactly:
        return located
    try:
        files = list_images(root)
    except InputError:  # a file whose name is not text
        return located
    return with_near(
        located, files, root, lambda names: [os.path.join(root, each) for each in names]
    )


def with_near(
    located: Located,
    files: Sequence[str],
    root: str,
    places: Callable[[Sequence[str]], Sequence[str]],
) -> Located:
    """The same with those found that are called otherwise; `files` are all there are."""
    names, paths = [*located.names], [*located.paths]
    lost = [names[row] for row in located.missing]
    meant = match_filenames(lost, files, root, set(names))
    found = [row for row in located.missing if names[row] in meant]
    for row, path in zip(found, places([meant[names[row]] for row in found]), strict=True):
        names[row], paths[row] = meant[names[row]], path
    missing = [row for row in located.missing if located.names[row] not in meant]
    notes = [*located.notes]
    for name, file in [*meant.items()][:1]:
        notes.append(
            f"{counted(len(meant), 'image')} found by another name, such as {name!r} = {file!r}"
        )
    return Located(paths, missing, names, notes)


def common_folder(folders: Sequence[Path]) -> tuple[Path, list[str]]:
    """The folder that holds all of these, and what leads from it to each: `""`, or `photos/`."""
    if len(set(map(os.path.abspath, folders))) == 1:
        return folders[0], [""] * len(folders)
    try:
        common = os.path.commonpath([os.path.abspath(each) for each in folders])
    except ValueError:  # drives of Windows
        both = " and ".join(dict.fromkeys(map(str, folders)))
        raise InputError(f"{both}: no folder holds both; name one with --images") from None
    ways = [Path(os.path.relpath(each, common)).as_posix() for each in folders]
    if not any(each.is_absolute() for each in folders):
        common = os.path.relpath(common)
    return Path(common), ["" if way == "." else f"{way}/" for way in ways]


def is_below(path: str, root: str) -> bool:
    """Whether a path is really `root` or below it; OSError if nothing is there."""
    return Path(os.path.realpath(path, strict=True)).is_relative_to(os.path.realpath(root))


def names_on_top(folder: str | Path) -> Iterator[str]:
    """The names in a folder itself; none if it cannot be read."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        yield from (each.name for each in entries)


def images_on_top(folder: str | Path) -> bool:
    """Whether images lie in a folder itself."""
    return any(name.lower().endswith(SUFFIXES) for name in names_on_top(folder))


def list_images(root: str | Path) -> list[str]:
    """Names of all image files below `root`, sorted, by their endings; hidden ones are left out.

    A raw file counts if it can be read, and if its photo is not there in another format.
    """
    root = os.fspath(root)
    if not os.path.isdir(root):
        raise InputError(f"{root}: no such image folder")
    names = []
    for folder, files in _files_below(root):
        photos = [file for file in files if file.lower().endswith(SUFFIXES)]
        if can_read_raw():
            stems = {os.path.splitext(file)[0] for file in photos}
            raw = (file for file in files if file.lower().endswith(RAW_SUFFIXES))
            photos += [file for file in raw if os.path.splitext(file)[0] not in stems]
        for file in photos:
            path = os.path.join(folder, file)
            if not os.path.isfile(path) or (os.path.islink(path) and not is_below(path, root)):
                continue
            name = os.path.relpath(path, root).replace(os.sep, "/")
            if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
                problem = f"{name!r}: the file name is not valid UTF-8; rename it"
                raise InputError(f"{root}: {problem}")
            names.append(name)
    return sorted(names)


def unread_note(root: str | Path) -> list[str]:
    """A note on skipped photos; raw files next to an image of the same name are not counted."""
    kinds: Counter[str] = Counter()
    raw = () if can_read_raw() else RAW_SUFFIXES
    for _, files in _files_below(root):
        parts = [os.path.splitext(file.lower()) for file in files]
        read = {stem for stem, ending in parts if ending in SUFFIXES}
        skipped = (ending for stem, ending in parts if stem not in read)
        kinds.update(ending for ending in skipped if ending in (*raw, *UNREAD_SUFFIXES))
    if not kinds:
        return []
    shown = ", ".join(f"{ending} {count:,}" for ending, count in kinds.most_common())
    some_raw = any(ending in raw for ending in kinds)
    todo = "pip install 'g2netpl[raw]', or convert them to JPEG" if some_raw else "convert to JPEG"
    return [f"skipped {counted(kinds.total(), 'unsupported photo')} in {root} ({shown}): {todo}"]


def _files_below(root: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Every folder, and the files in it, but for hidden ones and those of the system."""
    for folder, subfolders, files in os.walk(os.fspath(root)):
        shown = (name for name in subfolders if name.lower() not in _SYSTEM and name[0] != ".")
        subfolders[:] = sorted(shown)
        yield folder, [file for file in files if not file.startswith(".")]
