import math

import numpy as np
import pytest
import torch
from test_costs import LOGITS, OBSERVED, K

from g2netpl import RunConfig, train
from g2netpl.base.errors import InputError
from g2netpl.cli import main
from g2netpl.game.batches import Batch
from g2netpl.game.methods import make_player
from g2netpl.game.network_step import network_cost
from g2netpl.game.player import Setup
from g2netpl.images.loader import ImageSource
from g2netpl.images.views import PAIR

WEAK = torch.logit(
    torch.tensor([[0.99, 0.5, 0.02, 0.1], [0.6, 0.01, 0.96, 0.5], [0.5, 0.25, 0.97, 0.03]])
)


def player_of(**options):
    return make_player("fixmatch", options, Setup(OBSERVED, K, 1e-3))


def pairs():
    """Views whose "network" is the identity: the weak ones say WEAK, the strong ones LOGITS."""
    return torch.stack([WEAK, LOGITS], dim=1)[..., None, None]


def identity(views):
    return views[..., 0, 0].sigmoid()


def minus_log(value):
    return -math.log(value)


@pytest.mark.parametrize(("unobserved", "negatives"), [("negative", True), ("ignore", False)])
def test_by_hand(unobserved, negatives):
    player = player_of(unobserved=unobserved)
    batch = Batch(torch.arange(3), pairs(), OBSERVED)
    proposal = player.propose(batch, 0.0, identity)
    logits = proposal.inputs[..., 0, 0]
    assert torch.equal(logits, torch.cat([WEAK, LOGITS]))
    cost = float(network_cost(logits, proposal, K))
    # observed: + 0.99 (row 0), + 0.96 (row 1), − 0.02 (row 0); row 2 carries nothing
    weak = minus_log(0.99) + minus_log(0.96) + minus_log(0.98)
    if negatives:
        weak += minus_log(0.5) + minus_log(0.9)  # row 0
        weak += minus_log(0.4) + minus_log(0.99) + minus_log(0.5)  # row 1
    # sure on the weak view: 0.99+, 0.02−, 0.01−, 0.96+, 0.97+, 0.03−; the strong view says
    # 0.8, 0.2, 0.5, 0.9, 0.5, 0.75 there
    strong = minus_log(0.8) + minus_log(0.8) + minus_log(0.5)
    strong += minus_log(0.9) + minus_log(0.5) + minus_log(0.25)
    assert cost == pytest.approx((weak + strong) / 12, rel=1e-5)


def test_two_views_of_an_image_are_one_axis(photos):
    paths = sorted(str(path) for path in photos.glob("train-*.png"))[:5]
    groups = [np.array([3, 1]), np.array([0, 4, 2])]
    both = list(
        ImageSource(paths, 32, (0.5,) * 3, (0.25,) * 3, seed=2, view=PAIR, workers=1).load(
            groups, 7
        )
    )
    assert [batch.shape for batch in both] == [(2, 2, 3, 32, 32), (3, 2, 3, 32, 32)]
    for place, name in enumerate(PAIR):
        alone = ImageSource(paths, 32, (0.5,) * 3, (0.25,) * 3, seed=2, view=name)
        for one, pair in zip(alone.load(groups, 7), both, strict=True):
            assert torch.equal(one, pair[:, place])
    (plain,) = ImageSource(paths, 32, (0.5,) * 3, (0.25,) * 3, view=PAIR).load(groups[:1], None)
    assert plain.shape == (2, 3, 32, 32)


def test_it_trains_on_photos_and_nowhere_else(photos, tmp_path, capsys):
    values = {
        "labels": str(photos / "train.csv"),
        "images": str(photos),
        "only_listed": True,
        "output": str(tmp_path / "run"),
        "setting": "sspl:0.5",
        "backbone": "tiny",
        "image_size": 32,
        "epochs": 2,
        "workers": 0,
        "method": "fixmatch",
        "expected_positives": 2.3,
    }
    run = train(RunConfig(**values))
    assert 0 < run.result["validation_map"] <= 1
    with pytest.raises(InputError, match="use --mode top or end-to-end"):
        train(RunConfig(**values | {"mode": "linear", "output": str(tmp_path / "no")}))
    arguments = ["--methods", "fixmatch", "--settings", "fspl", "--output", str(tmp_path / "c")]
    assert main(["compare", *arguments]) == 2
    assert "use it with --labels and --mode top or end-to-end" in capsys.readouterr().err
