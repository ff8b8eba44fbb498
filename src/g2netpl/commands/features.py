"""Compute a folder of frozen features from images, for `g2netpl compare`.

examples:
  g2netpl features --labels train.csv --test-labels test.csv --images photos --output features
  g2netpl features --labels all.csv --images photos --backbone resnet50 --size 448 --output f50

Without --test-labels a fifth of the images becomes the test part.
"""

import argparse


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("--labels", required=True, help="label file (full labels, to compare by)")
    parser.add_argument("--images", required=True, help="folder that the names are relative to")
    parser.add_argument("--test-labels", help="label file of the test images")
    parser.add_argument("--backbone", default="lite0", help="lite0, tiny or any timm name (lite0)")
    parser.add_argument("--weights", help="own safetensors file of the backbone")
    parser.add_argument("--no-pretrained", action="store_true", help="start at random")
    parser.add_argument("--size", type=int, default=256, help="squash to this square (256)")
    parser.add_argument("--seed", type=int, default=0, help="of the split into train and test")
    parser.add_argument("--workers", type=int, default=2, help="image loader processes")
    parser.add_argument("--output", required=True, help="folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier one")


def run(flags: argparse.Namespace) -> None:
    """Compute and write."""
    from pathlib import Path

    import torch

    from g2netpl.base.arrays import finite_rows
    from g2netpl.base.console import Console
    from g2netpl.base.disk import write_json
    from g2netpl.base.errors import InputError
    from g2netpl.base.options import LARGEST_IMAGE, MOST_PROCESSES, check_range
    from g2netpl.game.network.network import build_backbone
    from g2netpl.images.features import FeatureFolder, Features, compute_features, write_features
    from g2netpl.images.loader import ImageSource
    from g2netpl.labels.formats import read_labels, read_matching
    from g2netpl.labels.paths import locate
    from g2netpl.labels.settings import split_indices
    from g2netpl.runs.ownership import check_folder, claimed
    from g2netpl.runs.records import RUN_FORMAT
    from g2netpl.training.progress import epoch_bar

    console = Console()
    check_range("--size", flags.size, 16, LARGEST_IMAGE)
    check_range("--workers", flags.workers, 0, MOST_PROCESSES)
    check_range("--seed", flags.seed, 0)
    table = read_labels(flags.labels)
    if flags.test_labels is not None:
        test = read_matching(flags.test_labels, table)
    else:
        first, second = split_indices(len(table), 0.2, flags.seed)
        table, test = table.take(first), table.take(second)
    train_paths, test_paths = (locate(part.images, flags.images) for part in (table, test))
    backbone = build_backbone(
        flags.backbone,
        pretrained=not flags.no_pretrained,
        weights=flags.weights,
        image_size=flags.size,
    )
    backbone.module.to("cuda" if torch.cuda.is_available() else "cpu")

    def compute(paths: list[str]) -> Features:
        source = ImageSource(paths, flags.size, backbone.mean, backbone.std, workers=flags.workers)
        with epoch_bar(console, 1, len(paths)) as bar:
            features = compute_features(backbone.module, source, on_batch=bar.advance)
        for row in (~finite_rows(features)).nonzero()[0]:
            raise InputError(f"{paths[row]}: the backbone makes no finite numbers of it")
        return features

    folder = Path(flags.output)
    check_folder(folder, "features", overwrite=flags.overwrite)
    features = FeatureFolder(compute(train_paths), table, compute(test_paths), test)
    about = {"backbone": flags.backbone, "size": flags.size}
    with claimed(folder, "features", overwrite=flags.overwrite):
        run_json = {"format": RUN_FORMAT, "command": "features", **about}
        write_json(folder / "run.json", run_json)
        write_features(folder, features)
    width = features.train_features.shape[1]
    console.print(
        f"{len(table):,} + {len(test):,} images × {width} features written to {folder}",
        highlight=False,
    )
