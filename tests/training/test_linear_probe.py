"""The solved probe against scikit-learn, and what held-out labels choose."""

from functools import partial

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from g2netpl.training.linear_probe import (
    LEAST_LABELLED,
    Choice,
    choose,
    default_decay,
    label_loss,
    solve,
    tag_loss,
)


def tagged_images(count=200, width=12, classes=4, seed=0):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(count, width, generator=random)
    truth = x @ torch.randn(width, classes, generator=random)
    tags = torch.multinomial(truth.softmax(1), 1, generator=random).flatten()
    observed = torch.full((count, classes), -1, dtype=torch.int8)
    observed[torch.arange(count), tags] = 1
    return x, observed, tags, truth


def standardised(x):
    """By scikit-learn, then with a mean squared norm of 1000."""
    return StandardScaler().fit_transform(x.numpy()) * (1000 / x.shape[1]) ** 0.5


@pytest.mark.parametrize("width", [12, 300])  # 300: more columns than images
def test_the_probe_is_that_of_scikit_learn(width):
    x, observed, tags, _ = tagged_images(width=width)
    probe = solve(tag_loss, x, None, observed, 0.3, tolerance=1e-7)
    theirs = LogisticRegression(C=1 / (0.3 * len(x)), tol=1e-8, max_iter=5000)
    theirs.fit(standardised(x), tags.numpy())
    ours = probe.logits(x, None).softmax(1)
    assert ours.numpy() == pytest.approx(theirs.predict_proba(standardised(x)), abs=2e-3)


def test_the_loss_of_several_tags_is_their_mean():
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    log_p = logits.log_softmax(1)[0]
    observed = torch.tensor([[1, -1, 1]], dtype=torch.int8)
    assert float(tag_loss(logits, observed)) == pytest.approx(float(-(log_p[0] + log_p[2]) / 2))


def test_the_probe_of_positives_and_negatives_is_that_of_scikit_learn():
    x, _, _, truth = tagged_images()
    observed = (truth > 0).to(torch.int8)
    observed[torch.rand(observed.shape, generator=torch.Generator().manual_seed(1)) < 0.4] = -1
    probe = solve(label_loss, x, None, observed, 0.3, tolerance=1e-7)
    for column in range(4):
        known = observed[:, column] >= 0
        theirs = LogisticRegression(C=1 / (0.3 * len(x)), tol=1e-8, max_iter=5000)
        theirs.fit(standardised(x)[known.numpy()], observed[known, column].numpy())
        ours = probe.logits(x, None)[:, column]
        assert ours.numpy() == pytest.approx(theirs.decision_function(standardised(x)), abs=2e-2)


def test_copies_of_an_image_in_one_group_do_not_choose_a_smaller_decay():
    x, observed, _, _ = tagged_images(60, width=40)
    noise = observed[torch.randperm(60, generator=torch.Generator().manual_seed(1))]
    copies, groups = torch.arange(60).repeat_interleave(4), torch.arange(240) // 4
    apart = choose(tag_loss, x[copies], None, noise[copies])
    together = choose(tag_loss, x[copies], None, noise[copies], groups)
    assert apart.weight_decay < together.weight_decay


def test_an_observed_negative_lowers_its_class():
    x, observed, _, _ = tagged_images()
    before = solve(tag_loss, x, None, observed, 1.0)
    observed[:, 2][observed[:, 2] < 0] = 0
    loss = partial(tag_loss, negative_weight=1.0)
    after = solve(loss, x, None, observed, 1.0)
    rows = observed[:, 2] == 0
    lower = after.logits(x, None).softmax(1)[rows, 2] < before.logits(x, None).softmax(1)[rows, 2]
    assert lower.float().mean() > 0.9


def test_a_right_prior_is_kept_and_a_wrong_one_is_turned_down():
    x, observed, _, truth = tagged_images()
    q = truth.clamp(-4.6, 4.6)
    assert choose(tag_loss, x, q, observed).factor == 1.0
    q = q[torch.randperm(len(q), generator=torch.Generator().manual_seed(5))]
    assert choose(tag_loss, x, q, observed).factor == 0.0


def test_with_few_tags_nothing_is_chosen():
    few = LEAST_LABELLED - 1
    x, observed, _, _ = tagged_images(few)
    assert choose(tag_loss, x, None, observed) == Choice(default_decay(few), 0.0)
