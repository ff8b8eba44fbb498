"""A label format and a backbone of your own, without touching the package.

The format: a line of JSON per photo, as many labelling tools write them,

    {"file": "images/train-00000.png", "yes": ["four"], "no": ["one", "seven"]}

The backbone: any module that turns images into vectors; here three convolutions, of which the
largest and the mean answers are kept. Both get a name, and every part of the package takes the
names: training, run folders, completed tables.

    python examples/own_format_and_backbone.py

It writes scenes, `labels.jsonl` and a run folder below `own-example`.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor, nn

from g2netpl import (
    FORMATS,
    Format,
    LabelTable,
    ReadOptions,
    RunConfig,
    Setting,
    load_run,
    make_scenes,
    observe,
    read_labels,
    train,
    write_labels,
    write_scenes,
)
from g2netpl.core import BACKBONES, Backbone


def can_read(path: Path) -> bool:
    """By its name; one could also look into the file."""
    return path.suffix == ".jsonl"


def read(path: Path, options: ReadOptions) -> LabelTable:
    """A label table: 1 where a line says yes, 0 where it says no, -1 where it says nothing."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    classes = sorted({name for line in lines for name in (*line["yes"], *line["no"])})
    values = [
        [1 if name in line["yes"] else 0 if name in line["no"] else -1 for name in classes]
        for line in lines
    ]
    return LabelTable([line["file"] for line in lines], classes, values)


def write(table: LabelTable, path: Path) -> list[str]:
    """The way back; nothing is lost, so there are no notes about what was left out."""
    with open(path, "w", encoding="utf-8") as file:
        for image, row in zip(table.images, table.values, strict=True):
            said = {
                word: [
                    name for name, value in zip(table.classes, row, strict=True) if value == sign
                ]
                for word, sign in (("yes", 1), ("no", 0))
            }
            file.write(json.dumps({"file": image, **said}) + "\n")
    return []


class Patches(nn.Module):
    """Three convolutions, then the largest and the mean answer of each channel."""

    width = 2 * 48

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Sequential(
            nn.Conv2d(3, 24, 5, stride=2, padding=2),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1),
            nn.BatchNorm2d(48),
            nn.ReLU(),
            nn.Conv2d(48, 48, 3, padding=1),
            nn.BatchNorm2d(48),
            nn.ReLU(),
        )

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, size, size) to (B, 96)."""
        seen = self.look(images).flatten(2)
        return torch.cat([seen.amax(dim=2), seen.mean(dim=2)], dim=1)


def patches(pretrained: bool) -> Backbone:
    """Build it; there are no weights to fetch. Images come as (pixel / 255 - mean) / deviation."""
    return Backbone(Patches(), Patches.width, mean=(0.3,) * 3, std=(0.25,) * 3)


FORMATS["jsonl"] = Format(can_read, read, write, (".jsonl",))
BACKBONES["patches"] = patches


def main() -> None:
    """Write labels in the format, train with the backbone, and load the run again."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenes", type=int, default=800)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("own-example"))
    flags = parser.parse_args()

    photos, labels = flags.output / "photos", flags.output / "labels.jsonl"
    write_scenes(make_scenes(flags.scenes, test=flags.scenes // 2), photos)
    seen = observe(read_labels(photos / "train.csv"), Setting.parse("known:0.3"), seed=0)
    write_labels(seen, labels)
    write_labels(read_labels(photos / "test.csv"), flags.output / "test.jsonl")
    print(f"{seen.known} labels written to {labels}")

    train(
        RunConfig(
            labels=labels,
            images=photos,
            test_labels=flags.output / "test.jsonl",
            output=flags.output / "run",
            backbone="patches",
            image_size=64,
            augment="plain",
            learning_rate=3e-3,
            batch_size=32,
            epochs=flags.epochs,
            workers=0,
        ),
        overwrite=True,
    )
    run = load_run(flags.output / "run")
    print(f"test mAP with {run.config.backbone}: {run.result['test_map']:.1%}")


if __name__ == "__main__":
    main()
