"""What class names are worth: methods with and without the names' prior, on a features folder.

The folder has `train.npz`, `test.npz`, `meta.npz` and `imagenet_head.npz`. A fifth of the training
images is for validation. A row has the test mAP at the epoch with the best validation mAP (full
labels) and at the last epoch. Names are matched automatically; nothing is chosen on the test split.

    python benchmarks/names.py FOLDER --settings names,0.02,0.2,1 --out rows.csv
    python benchmarks/names.py FOLDER --shuffled ...          a wrong prior, as a control
"""

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from g2netpl.core import Batch, build_method, build_model, train_epoch
from g2netpl.core.methods import METHODS
from g2netpl.core.models import Backbone
from g2netpl.core.prior import NamePrior
from g2netpl.labels.class_names import class_weights, imagenet_synsets, match_names, summary
from g2netpl.training.linear_probe import choose, kept_decay, solve, tag_loss


class Folder:
    """Features, full labels, and q of the names."""

    def __init__(self, path: Path, shuffled: bool = False) -> None:
        meta, head = np.load(path / "meta.npz"), np.load(path / "imagenet_head.npz")
        self.classes = [str(name) for name in meta["classes"]]
        self.synsets = imagenet_synsets(len(head["bias"]))
        self.matches = match_names(self.classes, self.synsets)
        groups = torch.from_numpy(class_weights(self.matches, self.synsets))
        if shuffled:
            groups = groups[torch.randperm(len(groups), generator=torch.Generator().manual_seed(3))]
        weight, bias = torch.from_numpy(head["weight"]), torch.from_numpy(head["bias"])
        self.prior = NamePrior(weight, bias, groups)
        self.scale = torch.from_numpy(meta["scale"])
        self.train, self.labels = self._part(path / "train.npz")
        self.test, self.test_labels = self._part(path / "test.npz")
        self.q, self.test_q = self._q(self.train), self._q(self.test)

    def _part(self, path: Path) -> tuple[Tensor, Tensor]:
        part = np.load(path)
        features = torch.from_numpy(part["features"]).float() * self.scale
        return features, torch.from_numpy(part["labels"])

    def _q(self, features: Tensor) -> Tensor:
        return torch.cat([self.prior(rows) for rows in features.split(2000)])


def single_positives(labels: Tensor, fraction: float, seed: int) -> Tensor:
    """One positive of some images is observed, everything else is not."""
    random = np.random.default_rng([seed, 29])
    observed = torch.full_like(labels, -1)
    rows = random.permutation(np.flatnonzero(labels.numpy().any(axis=1)))
    for row in rows[: round(fraction * len(rows))]:
        observed[row, random.choice(np.flatnonzero(labels[row].numpy()))] = 1
    return observed


def average_precisions(scores: Tensor, labels: Tensor) -> Tensor:
    """Average precision of each class, NaN without a positive (ties in the order of rows)."""
    order = scores.argsort(dim=0, descending=True, stable=True)
    hits = labels.gather(0, order).double()
    ranks = torch.arange(1, len(hits) + 1)[:, None]
    return (hits.cumsum(0) / ranks * hits).sum(0) / hits.sum(0)


def mean_ap(scores: Tensor, labels: Tensor) -> float:
    """mAP in per cent."""
    return 100 * float(average_precisions(scores, labels).nanmean())


def run(
    folder: Folder,
    name: str,
    fraction: float,
    *,
    names: bool,
    seed: int = 0,
    epochs: int = 10,
    batch: int = 64,
    lr: float = 1e-3,
    weight_decay: float = 0.0,
    softmax_scale: float = 1.0,
    offset: float = 0.0,
    is_matched: Tensor | None = None,
    factor: float = 1.0,
    solved: bool = False,
) -> dict[str, Any]:
    """Train once; test mAP at the best validation epoch and at the last one."""
    order = torch.from_numpy(np.random.default_rng([seed, 31]).permutation(len(folder.train)))
    held, rows = order[: len(order) // 5], order[len(order) // 5 :]
    observed = single_positives(folder.labels[rows], fraction, seed)
    k = float(folder.labels[rows].sum(1).float().mean())
    method = build_method(name, observed, k=k, epochs=epochs, seed=seed)
    sampled = METHODS[name].annotation != "random"
    model = build_model(
        Backbone(nn.Identity(), folder.train.shape[1]),
        len(folder.classes),
        annotation="sampled" if sampled else "random",
        k=k,
        trains_sigmoids=method.trains_sigmoids,
        prior=folder.prior if names else None,
        seed=seed,
    )
    matched = folder.prior.is_matched if is_matched is None else is_matched
    if names and sampled:
        with torch.no_grad():
            model.head.softmax.bias += offset * ~matched
    with torch.no_grad():
        for key, parameter in model.head.named_parameters():
            if "factor" in key:
                parameter.fill_(factor)
    if solved and sampled:
        known = folder.q[rows] * matched if names else None
        tagged = (observed == 1).any(dim=1).nonzero().flatten()
        x, q_of_tagged = folder.train[rows][tagged], None if known is None else known[tagged]
        choice = choose(tag_loss, x, q_of_tagged, observed[tagged], seed=seed)
        print(choice)
        q_of_tagged = q_of_tagged if choice.factor else None
        decay, factor = choice.weight_decay, choice.factor
        probe = solve(tag_loss, x, q_of_tagged, observed[tagged], decay, factor)
        model.head.set_probe(probe.weight, probe.bias, probe.factor)
        softmax_scale, weight_decay = 0.0, kept_decay(decay, x, observed.shape[1], True)
        if not method.trains_sigmoids:
            return solved_row(model, folder, matched if names else None)
    groups = model.head.parameter_groups(lr, softmax_scale)
    optimizer = torch.optim.Adam(groups, lr=lr, weight_decay=weight_decay, fused=True)
    method.start_phase(lr, deep=False)

    def step(loss: Tensor) -> bool:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return True

    def q(part: Tensor) -> Tensor | None:
        return part * matched if names else None

    def predict(features: Tensor, part: Tensor) -> Tensor:
        with torch.no_grad():
            return model.predict(features, q(part))

    random = torch.Generator().manual_seed(seed)
    features, known = folder.train[rows], folder.q[rows] * matched
    best, scores = -1.0, []
    begun = time.perf_counter()
    for epoch in range(epochs):
        batches = (
            Batch(part, observed[part], features[part], known[part] if names else None)
            for part in torch.randperm(len(rows), generator=random).split(batch)
        )
        train_epoch(model, method, batches, step, epoch / epochs)
        valid = mean_ap(predict(folder.train[held], folder.q[held]), folder.labels[held])
        if valid > best or epoch == epochs - 1:
            scores.append(mean_ap(predict(folder.test, folder.test_q), folder.test_labels))
        if valid > best:
            best, best_epoch, best_test = valid, epoch + 1, scores[-1]
    return {
        "best": round(best_test, 2),
        "last": round(scores[-1], 2),
        "epoch": best_epoch,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def solved_row(model: nn.Module, folder: Folder, matched: Tensor | None) -> dict[str, Any]:
    """The test mAP of a model that needs no epochs."""
    with torch.no_grad():
        q = None if matched is None else folder.test_q * matched
        score = round(mean_ap(model.predict(folder.test, q), folder.test_labels), 2)
    return {"best": score, "last": score, "epoch": 0, "seconds": 0}


def main() -> None:
    """Print and append one row per run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--settings", default="names,0.02,0.05,0.2,1", help="1 is FSPL")
    parser.add_argument("--methods", default="g2netpl,sampled,epr,wan,an")
    parser.add_argument("--names", default="yes,no")
    parser.add_argument("--weight-decay", default="0,1e-4")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--softmax-scale", type=float, default=1.0)
    parser.add_argument("--offset", default="0", help="of unmatched classes in the softmax")
    parser.add_argument("--hide", type=int, default=0, help="match every n-th class only")
    parser.add_argument("--factor", type=float, default=1.0)
    parser.add_argument("--solved", action="store_true", help="solve and choose the softmax")
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("names.csv"))
    flags = parser.parse_args()
    torch.set_num_threads(1)
    folder = Folder(flags.folder, flags.shuffled)
    print(summary(folder.matches, folder.synsets))
    matched = folder.prior.is_matched.clone()
    if flags.hide:
        matched &= torch.arange(len(matched)) % flags.hide == 0
    settings = flags.settings.split(",")
    if "names" in settings:
        settings.remove("names")
        precisions = 100 * average_precisions(folder.test_q, folder.test_labels)
        print(
            f"names only: {precisions[matched].nanmean():.2f} mAP on {int(matched.sum())} classes"
        )
        for name, value, known in zip(folder.classes, precisions.tolist(), matched, strict=True):
            print(f"  {name} {value:.1f}" if known else f"  {name} –", end="")
        print()
    header = not flags.out.exists()
    for seed in map(int, flags.seeds.split(",")):
        for setting in settings:
            for name in flags.methods.split(","):
                for names in flags.names.split(","):
                    for decay in flags.weight_decay.split(","):
                        for offset in flags.offset.split(",") if names == "yes" else ["0"]:
                            row = {
                                "folder": flags.folder.name,
                                "setting": setting,
                                "method": name,
                                "names": "shuffled" if flags.shuffled else names,
                                "weight_decay": decay,
                                "offset": offset,
                                "hide": flags.hide,
                                "seed": seed,
                                "lr": flags.lr,
                                "softmax_scale": flags.softmax_scale,
                                "solved": flags.solved,
                            }
                            row |= run(
                                folder,
                                name,
                                float(setting),
                                names=names == "yes",
                                seed=seed,
                                epochs=flags.epochs,
                                batch=flags.batch,
                                lr=flags.lr,
                                weight_decay=float(decay),
                                softmax_scale=flags.softmax_scale,
                                offset=float(offset),
                                is_matched=matched,
                                factor=flags.factor,
                                solved=flags.solved,
                            )
                            with flags.out.open("a", newline="") as file:
                                writer = csv.DictWriter(file, row)
                                if header:
                                    writer.writeheader()
                                header = False
                                writer.writerow(row)
                            print(" ".join(map(str, row.values())), flush=True)


if __name__ == "__main__":
    main()
