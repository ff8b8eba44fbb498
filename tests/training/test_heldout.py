"""The solved probe against scikit-learn, and what held-out tags choose."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from g2netpl.training.heldout import LEAST_TAGGED, choose, choose_probe, solve_chosen, split_folds
from g2netpl.training.probe import solve_path, tag_loss


def tagged_images(count=200, width=12, classes=4, seed=0):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(count, width, generator=random)
    truth = x @ torch.randn(width, classes, generator=random)
    tags = torch.multinomial(truth.softmax(1), 1, generator=random).flatten()
    observed = torch.full((count, classes), -1, dtype=torch.int8)
    observed[torch.arange(count), tags] = 1
    return x, observed, tags, truth


@pytest.mark.parametrize("width", [12, 300])  # 300: more columns than images
def test_the_probe_is_that_of_scikit_learn(width):
    x, observed, tags, _ = tagged_images(width=width)
    decay, scale = 0.3, (x.square().sum(1).mean() / 1000).sqrt()
    (probe,) = solve_path(x, None, observed, [decay], tolerance=1e-7)
    theirs = LogisticRegression(C=1 / (decay * len(x)), tol=1e-8, max_iter=5000)
    theirs.fit((x / scale).numpy(), tags.numpy())
    ours = probe.tag_logits(x, None).softmax(1)
    assert ours.numpy() == pytest.approx(theirs.predict_proba((x / scale).numpy()), abs=2e-3)


def test_weight_decay_means_the_same_after_a_rotation_or_scaling():
    x, observed, _, _ = tagged_images()
    rotation = torch.linalg.qr(torch.randn(12, 12)).Q
    (first,) = solve_path(x, None, observed, [0.3], tolerance=1e-6)
    (second,) = solve_path(5 * x @ rotation, None, observed, [0.3], tolerance=1e-6)
    expected = first.tag_logits(x, None)
    assert torch.allclose(second.tag_logits(5 * x @ rotation, None), expected, atol=2e-2)


def test_the_loss_of_several_tags_is_their_mean():
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    log_p = logits.log_softmax(1)[0]
    observed = torch.tensor([[1, -1, 1]], dtype=torch.int8)
    assert float(tag_loss(logits, observed)) == pytest.approx(float(-(log_p[0] + log_p[2]) / 2))


def test_folds_keep_groups_together_and_hold_out_every_row_once():
    groups = torch.tensor([4, 4, 1, 1, 1, 7, 8, 9, 9, 2])
    held = []
    for fit, out in split_folds(groups, 3, 1, seed=0):
        assert not set(groups[fit].tolist()) & set(groups[out].tolist())
        held += out.tolist()
    assert sorted(held) == list(range(10))


def test_the_default_stays_within_one_standard_error():
    default = torch.full((100,), 1.0)
    noise = torch.linspace(-1, 1, 100)
    slightly = default - 0.01 + noise
    clearly = default - 0.3 + noise
    assert choose(torch.stack([default, slightly]), 0) == 0
    assert choose(torch.stack([default, slightly, clearly]), 0) == 2
    same_group = torch.zeros(100, dtype=torch.int64)  # one observation, not a hundred
    assert choose(torch.stack([default, clearly]), 0, same_group) == 0


def test_a_right_prior_is_kept_and_a_wrong_one_is_turned_down():
    x, observed, _, truth = tagged_images()
    q = truth.clamp(-4.6, 4.6)
    assert choose_probe(x, q, observed).factor == 1.0
    q = q[torch.randperm(len(q), generator=torch.Generator().manual_seed(5))]
    wrong = choose_probe(x, q, observed)
    assert wrong.factor == 0.0
    without = solve_chosen(x, None, observed, choose_probe(x, None, observed))
    probe = solve_chosen(x, q, observed, wrong)
    assert torch.allclose(probe.tag_logits(x, q), without.tag_logits(x, None), atol=1e-4)


def test_more_noise_chooses_more_decay():
    x, observed, _, _ = tagged_images(400)
    noise = observed[torch.randperm(400, generator=torch.Generator().manual_seed(1))]
    clear, noisy = (choose_probe(x, None, some).weight_decay for some in (observed, noise))
    assert noisy > clear


def test_with_few_tags_nothing_is_chosen():
    x, observed, _, _ = tagged_images(LEAST_TAGGED - 1)
    choice = choose_probe(x, None, observed)
    assert choice.tagged == 0
    assert str(choice).startswith("nothing chosen")
    assert np.isfinite(solve_chosen(x, None, observed, choice).weight.numpy()).all()
