# ruff: noqa: E501
"""Record exit codes and files of about 80 commands, and compare a later version with the record.

    python dev/golden_commands.py before.json
    python dev/golden_commands.py after.json before.json

Each line of COMMANDS is run in a folder with small generated scenes. Recorded: the exit code and
every file that the command made or changed (CSV, JSON and JSON lines in full but for times, others
by name). The last line of the output is kept for reading; its wording may change.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TINY = "--backbone tiny --image-size 32 --augment plain --batch-size 16 --workers 0 --device cpu --cache cache"
TRAIN = f"train --labels photos/train.csv --images photos {TINY} --epochs 2"
COMMANDS = f"""
demo --epochs 1 --output demo
methods
methods g2netpl
methods nothing
check --labels photos/train.csv --images photos
check --labels photos/train.csv --images photos --test-labels photos/test.csv
check --labels tags.csv --images photos
check --labels tags.csv --images nowhere
check --labels nothing.csv
check --labels wrong.csv --images photos
check --labels negatives.csv --images photos
check --labels outside.csv --images photos
check --labels empty.csv --images photos
check --labels twice.csv --images photos
check --labels tags.csv --images photos --set classes=classes.txt
check --labels tags.csv --images photos --set aliases=aliases.txt
{TRAIN} --setting fspl --test-labels photos/test.csv --output first
{TRAIN} --setting fspl --output first
{TRAIN} --setting fspl --test-labels photos/test.csv --output first --overwrite
train --resume --output first
train --resume --output nowhere
{TRAIN} --method nothing --output x1
{TRAIN} --setting nothing --output x2
{TRAIN} --epochs 0 --output x3
{TRAIN} --batch-size -1 --output x4
{TRAIN} --backbone nothing --output x5
{TRAIN} --nothing 3 --output x6
train --labels tags.csv --images photos {TINY} --epochs 2 --output tags
train --labels mixed.csv --images photos {TINY} --epochs 2 --output mixed
train --labels one.csv --images photos {TINY} --epochs 2 --single-label --output one
{TRAIN} --setting sspl:0.4 --mode linear --set hidden=8 --output hidden
{TRAIN} --setting fspl --set ema=0.9 --mode full --epochs 1 --output ema
{TRAIN} --setting known:0.3 --mode lp-ft --set linear_epochs=1 --epochs 1 --output two
train --config run.toml --output from-toml
train --config wrong.toml --output x7
train --labels photos/train.csv --images photos {TINY} --validation-labels photos/test.csv --test-labels photos/test.csv --setting fspl --epochs 1 --output x8
{TRAIN} --setting fspl --thresholds precision:0.6 --test-labels photos/test.csv --output sure
report first
report tags --output tags.html
report nowhere
predict first --images photos --output scores.csv
predict first --images photos --output scores.csv
predict first --images photos --output scores.parquet
predict first --images photos --output blocks
predict first --images photos/train-00001.png --output single.csv
predict first --images nowhere --output x9.csv
complete tags --details completed.csv
complete tags --details completed.xlsx
complete tags --output long.csv --confidence 0.6
complete sure --details sure.csv
complete tags --output ls.json --to label-studio
complete mixed --details mixed-completed.csv
complete tags --labels tags.csv --images photos --output others.csv
review first --export answers.csv
export first --output bundle.onnx
predict bundle.onnx --images photos --output from-bundle.csv
predict wrong.onnx --images photos --output x10.csv
convert tags.csv table.csv
convert tags.csv table.xlsx
convert table.xlsx back.csv
convert tags.csv table.parquet
convert table.parquet back2.csv
convert tags.csv coco.json --to coco
convert coco.json back3.csv
convert tags.csv ls-tasks.json --to label-studio
convert ls-tasks.json back4.csv
convert tags.csv out --to nothing
convert semicolon.csv back5.csv
convert utf16.csv back6.csv
convert wrong.csv x11.csv
features --labels photos/train.csv --test-labels photos/test.csv --images photos --backbone tiny --image-size 32 --workers 0 --output features
features --images photos --backbone tiny --image-size 32 --workers 0 --output vectors
compare --features features --methods an,epr,g2netpl --settings fspl --seeds 0 --epochs 2 --batch-sizes 16 --learning-rates 1e-3 --jobs 1 --output compared
compare --features features --methods an,epr,g2netpl --settings fspl --seeds 0 --epochs 2 --batch-sizes 16 --learning-rates 1e-3 --jobs 1 --output compared --resume
compare --features nowhere --methods an --settings fspl --output x12
compare --features features --methods nothing --settings fspl --output x13
compare --features features --methods an --settings fspl --plugin wrong.py --output x14
report compared
reproduce table2 --data features --seeds 0 --epochs 1 --learning-rates 1e-3 --batch-sizes 16 --jobs 1 --output table2
reproduce nothing --output x15
nothing
--version
"""
TIMES = ("seconds", "images_per_second", "time", "folder", "output", "hours", "sha256", "created")


def call(words: str, place: Path) -> tuple[int, str]:
    """Run g2netpl in a folder: its exit code and the last line of its output."""
    command = [sys.executable, "-m", "g2netpl", *words.split()]
    done = subprocess.run(
        command, cwd=place, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode, lines[-1] if lines else ""


def timeless(value: object) -> object:
    """A JSON value without times and places."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in TIMES}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def content(path: Path) -> object:
    """What must not change in a file."""
    if path.suffix == ".json":
        return timeless(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [timeless(json.loads(line)) for line in path.read_text().splitlines()]
    if path.suffix in (".csv", ".txt", ".toml"):
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return "present"


def files(place: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder, with its size and time of change."""
    found = (path for path in place.rglob("*") if path.is_file() and "cache" not in path.parts)
    return {str(p.relative_to(place)): (p.stat().st_size, p.stat().st_mtime_ns) for p in found}


def prepare(place: Path) -> None:
    """Photos, and label files right and wrong."""
    from g2netpl import make_scenes, write_scenes

    write_scenes(make_scenes(80, 40), place / "photos")
    header, *rows = (place / "photos/train.csv").read_text().splitlines()
    names = header.split(",")[1:]
    cells = [row.split(",") for row in rows]
    present = [
        (row[0], [n for n, v in zip(names, row[1:], strict=True) if v == "1"]) for row in cells
    ]

    def write(name: str, lines: list[str], encoding: str = "utf-8") -> None:
        (place / name).write_text("\n".join(lines) + "\n", encoding=encoding)

    some = [
        f"{image},{';'.join(tags[: 1 + n % 2])}" for n, (image, tags) in enumerate(present) if n % 3
    ]
    write("tags.csv", ["image,tags", *some])
    write("utf16.csv", ["image,tags", *some], "utf-16")
    write(
        "semicolon.csv", ["image;tags", *(row.replace(";", "|").replace(",", ";") for row in some)]
    )
    write(
        "mixed.csv",
        [
            header,
            *(
                ",".join([row[0], *(v if (n + m) % 3 else "" for m, v in enumerate(row[1:]))])
                for n, row in enumerate(cells)
            ),
        ],
    )
    write("one.csv", ["image,tags", *(f"{image},{tags[0]}" for image, tags in present if tags)])
    write("wrong.csv", [header, rows[0].replace("1", "maybe", 1), *rows[1:]])
    write(
        "negatives.csv",
        [header, *(",".join([row[0], *(v.replace("0", "-1") for v in row[1:])]) for row in cells)],
    )
    write("outside.csv", ["image,tags", f"../photos/x.png,{names[0]}"])
    write("empty.csv", [])
    write("twice.csv", ["image,tags", *some[:3], some[0].split(",")[0] + "," + names[-1]])
    write("classes.txt", names)
    write("aliases.txt", [f"thing = {names[0]}"])
    write("list.txt", [row[0] for row in cells[:5]])
    write(
        "run.toml",
        [
            'labels = "tags.csv"',
            'images = "photos"',
            'backbone = "tiny"',
            "image_size = 32",
            "epochs = 1",
            'augment = "plain"',
            "batch_size = 16",
            "workers = 0",
        ],
    )
    write("wrong.toml", ['labels = "tags.csv"', "epochz = 3"])
    write("wrong.onnx", ["no model"])
    write("wrong.py", ["import nothing_of_this_name"])


def record() -> dict[str, object]:
    """Run all commands."""
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        prepare(place)
        for number, words in enumerate(COMMANDS.strip().splitlines()):
            before = files(place)
            code, last = call(words, place)
            after = files(place)
            made = [name for name in sorted(after) if before.get(name) != after[name]]
            key = f"{number:02d} {words}"
            found[key] = {
                "exit": code,
                "files": {n: content(place / n) for n in made},
                "said": last,
            }
            print(code, words, "|", last[:150], flush=True)
    return json.loads(re.sub(re.escape(folder), "", json.dumps(found)))


def differences(before: object, after: object, where: str = "") -> list[str]:
    """Every place where two records differ, but for the wording of messages."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = dict.fromkeys([*before, *after])
        return [
            line
            for key in keys
            if key != "said"
            for line in differences(before.get(key), after.get(key), f"{where} / {key}")
        ]
    return [] if before == after else [f"{where}: {str(before)[:80]} -> {str(after)[:80]}"]


if __name__ == "__main__":
    result = record()
    Path(sys.argv[1]).write_text(json.dumps(result, indent=1))
    if len(sys.argv) > 2:
        lines = differences(json.loads(Path(sys.argv[2]).read_text()), result)
        print("\n".join(lines) or "the same")
