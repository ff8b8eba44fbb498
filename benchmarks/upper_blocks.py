"""Every method where a backbone learns, as a table.

    python benchmarks/upper_blocks.py --labels VOC2012/ImageSets/Main/train.txt \
        --test-labels VOC2012/ImageSets/Main/val.txt --output runs/blocks
    … --backbone lite2 --image-size 260               a stronger backbone
    … --augment pair                                     two augmentations of each photo
    … --train-from none --image-size 160 --epochs 5 --learning-rate 3e-5   everything learns

Six epochs of the last layer of lite0 at 224 px, then four of its last block too; usual rates, batch
16, a fifth held out to choose the epoch by. The last layer takes seconds, the block one to two
minutes on a core, and once what is below it for all photos. Every training is a run folder, and
none is trained twice. Writes results-rows.csv: test mAP × 100, mean and deviation over the seeds.
"""

import argparse
import json
from pathlib import Path

from g2netpl import RunConfig, train
from g2netpl.labels.io.writing import write_rows
from g2netpl.reports.tables import spread, summarise

HEADER = ("method", "setting", "seeds", "best epoch", "± best", "last epoch", "± last")
METHODS = "an,an-ls,wan,epr,role,ll-r,gr,em-apl,sampled,g2netpl"


def trained(folder, **keys):
    """The result of a run, which is started, resumed, or finished already."""
    result = folder / "result.json"
    if not result.is_file():
        config = RunConfig(**keys, output=str(folder), mode="lp-ft", linear_epochs=6, patience=0)
        train(config, resume=folder.exists(), progress=True)
    return json.loads(result.read_text())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("labels", "test-labels", "output"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--images")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--settings", default="fspl,sspl:0.2")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--augment", default="paper", help="pair: two augmentations of each photo")
    parser.add_argument("--backbone", default="lite0")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--train-from", default="blocks.6", help="none: everything learns")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float)
    flags = vars(parser.parse_args())
    output = Path(flags.pop("output"))
    methods, settings, seeds = (
        flags.pop(name).split(",") for name in ("methods", "settings", "seeds")
    )
    if flags["train_from"] == "none":
        flags["train_from"] = None
    lines = []
    for method in methods:
        for setting in settings:
            rows = [
                trained(
                    output / f"{setting.replace(':', '-')}-{method}-{flags['augment']}-{seed}",
                    **flags,
                    method=method,
                    setting=setting,
                    seed=int(seed),
                )
                for seed in seeds
            ]
            (line,) = summarise(rows).to_dict("records")
            best, last = (spread(line, name) for name in ("best epoch", "last epoch"))
            print(f"{method:12} {setting:10} {best} / {last}", flush=True)
            lines.append([line[name] for name in HEADER])
    write_rows(output / "results-rows.csv", HEADER, lines)
