"""The loss and the update of every method, against values worked out by hand, autograd and timm."""

import math

import pytest
import torch
from hand_worked import (
    ABSENT,
    BATCH,
    LOGITS,
    NEGATIVE_LOSS,
    OBSERVED,
    POSITIVE_LOSS,
    SEEN,
    UNKNOWN,
    UNKNOWN_AS_NEGATIVE,
    UNKNOWN_AS_POSITIVE,
    F,
    K,
    R,
    gradient_of,
    loss_of,
    make,
    minus_log,
)

from g2netpl.core import Batch, Output, build_method
from g2netpl.core.methods import parse_method
from g2netpl.core.methods.em_apl import entropy
from g2netpl.core.methods.large_loss import largest
from g2netpl.utils.errors import InputError

KNOWN_LOSS = POSITIVE_LOSS + NEGATIVE_LOSS
OTHER_SIDE = minus_log(0.2) + minus_log(0.1) + minus_log(0.2)  # of the three observed labels
AN = KNOWN_LOSS + UNKNOWN_AS_NEGATIVE
FIXED = {
    "iu": KNOWN_LOSS / 12,
    "an": AN / 12,
    "an-ls": (0.9 * AN + 0.1 * (OTHER_SIDE + UNKNOWN_AS_POSITIVE)) / 12,
    "wan": (KNOWN_LOSS + UNKNOWN_AS_NEGATIVE / 3) / 12,
    "epr": KNOWN_LOSS / 12 + R,
    "sampled": 0.0,
}
# (f − target)/12 is the gradient of a cross-entropy by its logit; that of R is, with
# mean = 6.1/3, B = 3 and L = 4: 2·(mean − k)/4² · f(1 − f)/3
IS_POSITIVE, IS_KNOWN = (OBSERVED == 1).float(), (OBSERVED != -1).float()
SLOPE_OF_R = 2 * (6.1 / 3 - 2) / 16 * F * (1 - F) / 3
SLOPES = {
    "iu": IS_KNOWN * (F - IS_POSITIVE) / 12,
    "an": (F - IS_POSITIVE) / 12,
    "an-ls": (F - (0.1 + 0.8 * IS_POSITIVE)) / 12,
    "wan": (IS_KNOWN + (1 - IS_KNOWN) / 3) * (F - IS_POSITIVE) / 12,
    "epr": IS_KNOWN * (F - IS_POSITIVE) / 12 + SLOPE_OF_R,
}


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def logit(p):
    return math.log(p / (1 - p))


@pytest.mark.parametrize("name", FIXED)
def test_fixed_labels_by_hand(name):
    assert loss_of(name) == pytest.approx(FIXED[name], abs=1e-6)


@pytest.mark.parametrize("name", SLOPES)
def test_gradients_by_hand(name):
    torch.testing.assert_close(gradient_of(make(name)), SLOPES[name], rtol=0, atol=1e-7)


def test_full_labels_by_hand():
    full = torch.tensor([[1, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]], dtype=torch.int8)
    right = (0.8, 0.5, 0.8, 0.9, 0.6, 0.5, 0.9, 0.5, 0.5, 0.75, 0.5, 0.75)
    agree, differ = sum(map(minus_log, right)), sum(minus_log(1 - p) for p in right)
    assert loss_of("bce", observed=full) == pytest.approx(agree / 12, abs=1e-6)
    smoothed = (0.9 * agree + 0.1 * differ) / 12
    assert loss_of("bce-ls", observed=full) == pytest.approx(smoothed, abs=1e-6)


def test_unlabelled_images_can_be_ignored():
    expected = KNOWN_LOSS + sum(minus_log(1 - f) for f in UNKNOWN[:5])  # of the first two images
    method = make("an", unlabelled_images="ignore")
    assert loss_of(method) == pytest.approx(expected / 12, abs=1e-6)


# --- the paper's method ---------------------------------------------------------------------------


def test_g2netpl_by_hand():
    # at the start û = ½: weight of an unobserved label 1.25·ξ, ξ = 0.8·0.7/1.3
    weight = 1.25 * 0.8 * 0.7 / 1.3
    middle = 0.5 * (UNKNOWN_AS_NEGATIVE + UNKNOWN_AS_POSITIVE)
    # an observed negative counts w + (1 − w)·f with w at most 1, so 1
    loss = (KNOWN_LOSS + weight * middle) / 12 + 1.25 * R
    options = {"unobserved_weight": 1.25, "regulariser": 1.25}
    assert loss_of(make("g2netpl", **options)) == pytest.approx(loss, abs=1e-6)
    # CE(ŷ, ½) = ln 2 whatever ŷ is
    literal = (KNOWN_LOSS + weight * 9 * math.log(2)) / 12 + 1.25 * R
    method = make("g2netpl", order="as_printed", **options)
    assert loss_of(method) == pytest.approx(literal, abs=1e-6)
    # the defaults: 0.1·ξ, a negative 0.1 + 0.9·0.25, and R with 10 / 4^1.5 = 1.25
    loss = (POSITIVE_LOSS + 0.325 * NEGATIVE_LOSS + weight / 12.5 * middle) / 12 + 1.25 * R
    assert loss_of("g2netpl") == pytest.approx(loss, abs=1e-6)
    # the paper read literally: weights 1, and γ = 1 mutes û = ½ while φ = 0
    assert loss_of("g2netpl-paper") == pytest.approx(KNOWN_LOSS / 12 + R, abs=1e-6)


def test_plmcl_by_hand():
    # û = sigmoid(y), momentum 0.9, steps of 0.4·φ²; λ = 1 pulls with (1 − 2û)·û(1 − û)
    method = make("plmcl")
    for phi in (0.0, 0.5):
        weight = 0.1 * (0.8 * 0.7 / 1.3 + 0.2 * phi)
        middle = 0.5 * (UNKNOWN_AS_NEGATIVE + UNKNOWN_AS_POSITIVE)
        expected = (KNOWN_LOSS + weight * middle) / 12 + 1.25 * R
        assert loss_of(method, phi) == pytest.approx(expected, abs=1e-6)
        method.update(BATCH, F, phi)
    method.update(BATCH, F, 1.0)
    labels = method.pseudo_labels(torch.arange(3))
    for f, place in ((0.1, (0, 3)), (0.25, (2, 1)), (0.75, (2, 3)), (0.5, (1, 1))):
        latent = velocity = 0.0
        for step in (0.0, 0.1, 0.4):
            u = sigmoid(latent)
            velocity = 0.9 * velocity + (u - f) + (1 - 2 * u) * u * (1 - u)
            latent -= step * velocity
        assert float(labels[place]) == pytest.approx(sigmoid(latent), abs=1e-6)


def test_fixed_pseudo_labels_are_the_control():
    method = make("g2netpl", response="fixed")
    loss_of(method, 0.5)
    method.update(BATCH, F, 0.5)
    assert torch.equal(method.pseudo_labels(torch.tensor([2])), torch.full((1, 4), 0.5))


def test_the_best_response_ends_regret():
    method = make("g2netpl", response="best_response")
    unknown = OBSERVED == -1
    before = method.regret(torch.arange(3), F)
    assert before.shape == (int(unknown.sum()),)
    assert float(before.max()) > 0.01
    method.update(BATCH, F, 0.5)
    assert float(method.regret(torch.arange(3), F).max()) < 1e-6


# --- ROLE, UPS, FixMatch --------------------------------------------------------------------------


def test_role_by_hand():
    # ½[−log f of positives + CE(g, f)] / 12 + ½R, g the estimates at the start
    method = make("role", seed=5)
    g = method.logits.detach().sigmoid()
    assert g[0, 0] == pytest.approx(0.995)
    assert g[0, 2] == pytest.approx(0.005)
    hidden = g[OBSERVED == -1]
    assert 0.4 <= hidden.min() < 0.45 < 0.55 < hidden.max() <= 0.6
    both = float((-g * F.log() - (1 - g) * (1 - F).log()).sum())
    assert loss_of(method) == pytest.approx(0.5 * (POSITIVE_LOSS + both) / 12 + 0.5 * R, abs=1e-6)
    slope = 0.5 * (IS_POSITIVE * (F - 1) + F - g) / 12 + 0.5 * SLOPE_OF_R
    torch.testing.assert_close(gradient_of(method), slope, rtol=0, atol=1e-7)


def test_role_estimates_move_as_dense_adam_moves_them():
    observed = torch.full((24, 3), -1, dtype=torch.int8)
    observed[::5, 1] = 1
    method = build_method("role", observed, k=1.0, seed=5)
    method.start_phase(0.01, deep=False)
    table = method.logits.detach().clone().requires_grad_()
    adam = torch.optim.Adam([table], lr=0.1)  # 10 × the model's
    random = torch.Generator().manual_seed(1)
    predictions = 0.1 + 0.8 * torch.rand(24, 3, generator=random)
    for _ in range(10):
        for rows in torch.randperm(24, generator=random).split(2):
            adam.zero_grad()
            predicted, g = predictions[rows], table[rows].sigmoid()
            costs = -predicted * g.log() - (1 - predicted) * (1 - g).log()
            costs = costs + torch.where(observed[rows] == 1, -g.log(), torch.zeros(()))
            regulariser = ((g.sum(1).mean() - 1.0) / 3) ** 2
            (0.5 * costs.sum() / 6 + 0.5 * regulariser).backward()
            adam.step()
            method.update(Batch(rows, observed[rows]), predicted, 0.0)
    labels = torch.where(observed == -1, table.detach().sigmoid(), observed.float())
    torch.testing.assert_close(method.pseudo_labels(torch.arange(24)), labels)


def test_ups_selects_what_is_confident_and_stable():
    method = make("ups")
    mean = torch.tensor([[0.9, 0.9, 0.9, 0.02], [0.9, 0.5, 0.1, 0.02], [0.8, 0.8, 0.04, 0.06]])
    deviation = torch.tensor(
        [[0.01] * 2 + [0.01, 0.001], [0.2, 0.0, 0.0, 0.01], [0.04, 0.06, 0.004, 0.0]]
    )
    rows = torch.arange(3)
    method.start_round([(rows, mean, deviation)])
    # observed labels stay; 0.05 and 0.005 are the limits of the deviation
    expected = [[1, 1, 0, 0], [0.5, 0.5, 1, 0.5], [1, 0.5, 0, 0.5]]
    assert method.pseudo_labels(rows).tolist() == expected
    # labelled images: unobserved is negative; the third image: what was selected only
    known = POSITIVE_LOSS + minus_log(0.5) + minus_log(1 - 0.2) + minus_log(1 - 0.1)
    known += sum(minus_log(1 - f) for f in (0.6, 0.5, 0.5)) + minus_log(0.5) + minus_log(0.5)
    assert loss_of(method) == pytest.approx(known / 12, abs=1e-6)
    assert (method.rounds, method.passes, method.dropout) == (2, 10, 0.3)


# --- later methods --------------------------------------------------------------------------------


def test_asl_by_hand():
    # γ+ 1, γ− 4, shift 0.05: (1 − f)·−log f, and (f − 0.05)⁴·−log(1.05 − f)
    total = sum((1 - f) * minus_log(f) for f in SEEN)
    total += sum((f - 0.05) ** 4 * minus_log(1.05 - f) for f in (ABSENT, *UNKNOWN))
    assert loss_of("asl") == pytest.approx(total / 12, rel=1e-5)
    plain = make("asl", negative_focus=0, positive_focus=0, shift=0)
    assert loss_of(plain) == pytest.approx(AN / 12, rel=1e-5)


@pytest.mark.parametrize("focus", [(4.0, 1.0), (2.0, 0.0), (1.0, 3.0)])
def test_asl_equals_timm(focus):
    from timm.loss import AsymmetricLossMultiLabel

    random = torch.Generator().manual_seed(3)
    logits = 4 * torch.randn(50, 7, generator=random)
    observed = torch.randint(-1, 2, (50, 7), generator=random, dtype=torch.int8)
    options = {"negative_focus": focus[0], "positive_focus": focus[1]}
    method = build_method("asl", observed, **options)
    ours = method.loss(Output(logits), Batch(torch.arange(50), observed), 0.0)
    theirs = AsymmetricLossMultiLabel(gamma_neg=focus[0], gamma_pos=focus[1], clip=0.05)
    rows = zip(logits.split(1), (observed == 1).float().split(1), strict=True)
    sums = torch.stack([theirs(*row) for row in rows])
    assert torch.allclose(ours, sums.sum() / 350, rtol=1e-5)


def focal_margin(f, margin=1.0):
    moved = sigmoid(logit(f) - margin)
    return (1 - moved) ** 2 * minus_log(moved)


def test_hill_by_hand():
    total = sum(map(focal_margin, SEEN))
    total += sum((1.5 - f) * f**2 for f in (ABSENT, *UNKNOWN))
    assert loss_of("hill") == pytest.approx(total / 12, rel=1e-5)


def test_splc_by_hand():
    seen = sum(map(focal_margin, SEEN))
    negatives = sum(f**2 * minus_log(1 - f) for f in (ABSENT, *UNKNOWN))
    assert loss_of("splc") == pytest.approx((seen + negatives) / 12, rel=1e-5)
    # later, 0.75 is above 0.61 and becomes a positive without a margin; 0.6 is not above
    corrected = seen + negatives - 0.75**2 * minus_log(1 - 0.75) + focal_margin(0.75, 0.0)
    method = make("splc", threshold=0.61)
    assert loss_of(method, 0.5) == pytest.approx(corrected / 12, rel=1e-5)


def test_large_losses_by_hand():
    for name in ("ll-r", "ll-ct"):  # in the first epoch it is AN
        assert loss_of(name) == pytest.approx(AN / 12, rel=1e-5)
    # rate 0.4 at φ = 0.5: 0.2 · 9, rounded up to 2 labels, those with f = 0.75 and 0.6
    rest = AN - minus_log(1 - 0.75) - minus_log(1 - 0.6)
    assert loss_of(make("ll-r", rate=0.4), 0.5) == pytest.approx(rest / 12, rel=1e-5)
    turned = rest + minus_log(0.75) + minus_log(0.6)
    assert loss_of(make("ll-ct", rate=0.4), 0.5) == pytest.approx(turned / 12, rel=1e-5)


def test_permanent_corrections_add_the_same_fraction_every_epoch_but_the_first():
    observed = torch.full((40, 50), -1, dtype=torch.int8)
    method = build_method("ll-cp", observed, epochs=5)
    logits = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    batch, counts = Batch(torch.arange(40), observed), []
    for epoch in range(5):
        loss = method.loss(Output(logits.requires_grad_()), batch, epoch / 5)
        (gradient,) = torch.autograd.grad(loss, logits)
        counts.append(int((gradient < 0).sum()))  # counted as positive in this step
        method.update(batch, logits.detach().sigmoid(), epoch / 5)
        assert int(method.corrected.sum()) == counts[-1]
    # 0.02 / 5 of the 2,000, 1,992, … labels still open, rounded up
    assert counts == [0, 8, 16, 24, 32]


def test_the_largest_are_chosen_among_those_allowed():
    scores = torch.tensor([[0.9, 0.1], [0.5, 0.7]])
    among = torch.tensor([[False, True], [True, True]])
    assert largest(scores, among, 2 / 3).tolist() == [[False, False], [True, True]]
    assert largest(scores, among, 0.1).tolist() == [[False, False], [False, True]]  # at least one
    assert not largest(scores, among, 0.0).any()


def test_em_by_hand():
    def h(f):
        return f * minus_log(f) + (1 - f) * minus_log(1 - f)

    total = KNOWN_LOSS - 0.1 * sum(map(h, UNKNOWN))
    assert loss_of("em") == pytest.approx(total / 12, rel=1e-5)
    assert loss_of("em-apl") == pytest.approx(total / 12, rel=1e-5)  # before its pseudo-labels
    assert torch.isfinite(entropy(torch.tensor([-200.0, 200.0]))).all()


def test_apl_reaches_its_fraction_of_negatives_in_the_last_epoch():
    observed = torch.full((1000, 1), -1, dtype=torch.int8)
    method = build_method("em-apl", observed, epochs=10)
    predicted = torch.linspace(0, 1, 1000)[:, None]
    batch, counts = Batch(torch.arange(1000), observed), []
    for epoch in range(10):
        method.start_epoch(epoch / 10)
        counts.append(int((predicted <= method.thresholds).sum()))
        method.update(batch, predicted, epoch / 10)
    assert counts == [0, 0, 0, 0, 0, 180, 360, 540, 720, 900]


def test_apl_learns_soft_negatives_by_hand():
    observed = torch.tensor([[-1], [-1], [1]], dtype=torch.int8)
    method = build_method("em-apl", observed, epochs=2, negatives=0.5)
    batch = Batch(torch.arange(3), observed)
    method.update(batch, torch.tensor([[0.2], [0.6], [0.9]]), 0.0)
    method.start_epoch(0.5)  # half of the two unobserved: the one with 0.2
    logits = torch.logit(torch.tensor([[0.4], [0.6], [0.9]]))
    chosen = 0.9 * (0.2 * minus_log(0.4) + 0.8 * minus_log(0.6))
    rest = -0.1 * (0.6 * minus_log(0.6) + 0.4 * minus_log(0.4)) + minus_log(0.9)
    loss = float(method.loss(Output(logits), batch, 0.5))
    assert loss == pytest.approx((chosen + rest) / 3, rel=1e-5)


@pytest.mark.parametrize(
    ("phi", "slope", "centre", "width"), [(0.0, 0, 0.5, 2), (1.0, 2, 0.8, 0.5)]
)
def test_gr_by_hand(phi, slope, centre, width):
    total = KNOWN_LOSS
    for f in UNKNOWN:
        positive = sigmoid(slope * f - 2)
        weight = math.exp(-((f - centre) ** 2) / (2 * width**2))
        total += weight * (positive * (1 - f**0.01) / 0.01 + (1 - positive) * f)
    assert loss_of("gr", phi) == pytest.approx(total / 12, rel=1e-5)


# --- loss functions, and mistakes -----------------------------------------------------------------


def test_mistakes_are_one_line():
    for changes, message in (
        ({"slope": "1,2,3"}, "method gr: slope: "),
        ({"width": "1,0"}, "width: input should be greater than 0"),
        ({"slop": 1}, "unknown key 'slop'"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            make("gr", **changes)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="did you mean 'g2netpl'"):
        make("g2netp")
    with pytest.raises(InputError, match="needs k"):
        build_method("epr", OBSERVED).loss(Output(LOGITS), BATCH, 0.0)
    with pytest.raises(InputError, match="expected key=value after ':'"):
        parse_method("epr:regulariser")
    assert parse_method("gr:slope=(0,2)") == ("gr", {"slope": "(0,2)"})
    assert K == 2.0
