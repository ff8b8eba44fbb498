"""Every method where the last block of a backbone learns: a table, and a picture of it.

    python benchmarks/upper_blocks.py --labels VOC2012/ImageSets/Main/train.txt \
        --test-labels VOC2012/ImageSets/Main/val.txt --output runs/blocks

Six epochs of the last layer of lite0 at 224 px, then four of its last block too; usual rates, batch
16, a fifth held out to choose the epoch by. The last layer takes seconds, the block one to two
minutes on a core, and once what is below it for all photos. Every training is a run folder, and
none is trained twice. Writes results-rows.csv and a picture, results.png: test mAP × 100, mean and
deviation over the seeds.
"""

import argparse
import json
from pathlib import Path

from g2netpl import RunConfig, train
from g2netpl.labels.formats.sheet import write_rows
from g2netpl.reports.charts import write_png
from g2netpl.reports.figures import table_rows
from g2netpl.reports.tables import moments, spread

METHODS = "an,an-ls,wan,epr,role,ll-r,gr,em-apl,draw,g2netpl"


def trained(folder, **keys):
    """The result of a training, which is begun, gone on with, or finished already."""
    result = folder / "result.json"
    if not result.is_file():
        config = RunConfig(
            **keys,
            output=str(folder),
            mode="linear-init",
            train_from="blocks.6",
            linear_epochs=6,
            epochs=4,
            patience=0,
        )
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
    parser.add_argument("--view", default="paper", help="pair: two views of each photo")
    flags = parser.parse_args()
    output, lines = Path(flags.output), []
    for method in flags.methods.split(","):
        for setting in flags.settings.split(","):
            rows = [
                trained(
                    output / f"{setting.replace(':', '-')}-{method}-{flags.view}-{seed}",
                    labels=flags.labels,
                    test_labels=flags.test_labels,
                    images=flags.images,
                    method=method,
                    setting=setting,
                    view=flags.view,
                    seed=int(seed),
                )
                for seed in flags.seeds.split(",")
            ]
            best, last = ([row[key] for row in rows] for key in ("test_map", "last_test_map"))
            print(f"{method:12} {setting:10} {spread(best)} / {spread(last)}", flush=True)
            lines.append([method, method, setting, len(rows), *moments(best), *moments(last), None])
    header = ("method", "setting", "seeds", "best epoch", "± best", "last epoch", "± last")
    write_rows(output / "results-rows.csv", header, [line[1:-1] for line in lines])
    _, _, charts = table_rows(lines)
    write_png(output / "results.png", charts)
