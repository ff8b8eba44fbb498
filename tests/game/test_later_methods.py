"""Methods that came after the paper, on the 3 × 4 example of test_costs.py, worked out by hand."""

import math

import numpy as np
import pytest
import torch
from test_costs import (
    LOGITS,
    NEGATIVE,
    OBSERVED,
    POSITIVE,
    UNOBSERVED,
    UNOBSERVED_AS_POSITIVE,
    F,
    K,
    R,
)

from g2netpl.base.errors import InputError
from g2netpl.commands.parsing import split_list
from g2netpl.game.batches import Batch
from g2netpl.game.methods import make_player, method_options
from g2netpl.game.network_step import network_cost
from g2netpl.game.player import Setup
from g2netpl.game.players.entropy import entropy
from g2netpl.game.players.large_loss import largest

SEEN = (0.8, 0.9)  # f of the observed positives
ABSENT = 0.2  # of the observed negative
UNKNOWN = (0.5, 0.1, 0.6, 0.5, 0.5, 0.5, 0.25, 0.5, 0.75)  # of the nine unobserved entries


def player_of(method, **options):
    return make_player(method, options, Setup(OBSERVED, K, 1e-3))


def cost_of(method, progress=0.0, **options):
    batch = Batch(torch.arange(3), LOGITS, OBSERVED)
    proposal = player_of(method, **options).propose(batch, progress, lambda inputs: inputs)
    return float(network_cost(LOGITS, proposal, K))


def minus_log(value):
    return -math.log(value)


def squash(logit):
    return 1 / (1 + math.exp(-logit))


def logit(value):
    return math.log(value / (1 - value))


def test_asl_by_hand():
    # γ+ 1, γ− 4, shift 0.05: (1 − f)·−log f, and (f − 0.05)⁴·−log(1.05 − f)
    total = sum((1 - f) * minus_log(f) for f in SEEN)
    total += sum((f - 0.05) ** 4 * minus_log(1.05 - f) for f in (ABSENT, *UNKNOWN))
    assert cost_of("asl") == pytest.approx(total / 12, rel=1e-5)
    # without focus and shift it is AN
    plain = sum(map(minus_log, SEEN)) + sum(minus_log(1 - f) for f in (ABSENT, *UNKNOWN))
    options = {"negative_focus": 0, "positive_focus": 0, "shift": 0}
    assert cost_of("asl", **options) == pytest.approx(plain / 12, rel=1e-5)


@pytest.mark.parametrize("focus", [(4.0, 1.0), (2.0, 0.0), (1.0, 3.0)])
def test_asl_is_timms(focus):
    from timm.loss import AsymmetricLossMultiLabel

    random = torch.Generator().manual_seed(3)
    logits = 4 * torch.randn(50, 7, generator=random)
    observed = torch.randint(-1, 2, (50, 7), generator=random, dtype=torch.int8)
    options = {"negative_focus": focus[0], "positive_focus": focus[1]}
    player = make_player("asl", options, Setup(observed, K, 1e-3))
    batch = Batch(torch.arange(50), logits, observed)
    cost = network_cost(logits, player.propose(batch, 0.0, lambda inputs: inputs), K)
    theirs = AsymmetricLossMultiLabel(gamma_neg=focus[0], gamma_pos=focus[1], clip=0.05)
    rows = zip(logits.split(1), (observed == 1).float().split(1), strict=True)
    sums = torch.stack([theirs(*row) for row in rows])  # of each image: timm 1.0.31 gives means
    assert torch.allclose(cost, sums.sum() / 350, rtol=1e-5)


def focal_margin(f, margin=1.0):
    moved = squash(logit(f) - margin)
    return (1 - moved) ** 2 * minus_log(moved)


def test_hill_by_hand():
    # positives: focal margin with m 1, γ 2; the rest (1.5 − f)·f²
    total = sum(map(focal_margin, SEEN))
    total += sum((1.5 - f) * f**2 for f in (ABSENT, *UNKNOWN))
    assert cost_of("hill") == pytest.approx(total / 12, rel=1e-5)


def test_splc_by_hand():
    # positives: focal margin with m 1, γ 2; the rest f²·−log(1 − f)
    seen = sum(map(focal_margin, SEEN))
    negatives = sum(f**2 * minus_log(1 - f) for f in (ABSENT, *UNKNOWN))
    assert cost_of("splc", 0.0) == pytest.approx((seen + negatives) / 12, rel=1e-5)
    # later, 0.75 is above 0.61 and becomes a positive without a margin; 0.6 is not above
    corrected = seen + negatives - 0.75**2 * minus_log(1 - 0.75) + focal_margin(0.75, 0.0)
    assert cost_of("splc", 0.5, threshold=0.61) == pytest.approx(corrected / 12, rel=1e-5)


def test_splc_believes_an_observed_negative():
    logits = torch.tensor([[3.0, 3.0]], requires_grad=True)
    observed = torch.tensor([[0, -1]], dtype=torch.int8)
    player = make_player("splc", {}, Setup(observed, K, 1e-3))
    proposal = player.propose(Batch(torch.tensor([0]), logits, observed), 0.5, torch.sigmoid)
    network_cost(logits, proposal, K).backward()
    assert logits.grad[0, 0] > 0 > logits.grad[0, 1]  # down, and corrected: up


def test_large_losses_by_hand():
    observed = sum(map(minus_log, SEEN)) + minus_log(1 - ABSENT)
    unknown = sum(minus_log(1 - f) for f in UNKNOWN)
    for method in ("ll-r", "ll-ct"):  # in the first epoch it is AN
        assert cost_of(method, 0.0) == pytest.approx((observed + unknown) / 12, rel=1e-5)
    # rate 0.4 at φ = 0.5: 0.2 · 9, rounded up to 2 entries, those with f = 0.75 and 0.6
    rest = unknown - minus_log(1 - 0.75) - minus_log(1 - 0.6)
    assert cost_of("ll-r", 0.5, rate=0.4) == pytest.approx((observed + rest) / 12, rel=1e-5)
    turned = rest + minus_log(0.75) + minus_log(0.6)
    assert cost_of("ll-ct", 0.5, rate=0.4) == pytest.approx((observed + turned) / 12, rel=1e-5)


def test_a_permanent_correction_stays_from_the_next_epoch_on():
    player = player_of("ll-cp", rate=0.2)
    batch = Batch(torch.arange(3), LOGITS, OBSERVED)
    player.propose(batch, 0.5, lambda inputs: inputs)
    player.respond(batch, F, 0.5)  # 0.2 / 10 of 9, rounded up to 1 entry: f = 0.75
    assert float(player.propose(batch, 0.5, lambda inputs: inputs).targets.sum()) == 2
    player.end_epoch()
    targets = player.propose(batch, 0.6, lambda inputs: inputs).targets
    assert float(targets.sum()) == 3
    assert targets[2, 3] == 1
    again = player_of("ll-cp", rate=0.2)
    again.load_state(player.state())
    assert torch.equal(again.propose(batch, 0.6, lambda inputs: inputs).targets, targets)


def test_the_largest_are_chosen_among_those_asked():
    scores = torch.tensor([[0.9, 0.1], [0.5, 0.7]])
    among = torch.tensor([[False, True], [True, True]])
    assert largest(scores, among, 2 / 3).tolist() == [[False, False], [True, True]]
    assert largest(scores, among, 0.1).tolist() == [[False, False], [False, True]]  # one at least
    assert not largest(scores, among, 0.0).any()
    assert not largest(scores, torch.zeros(2, 2, dtype=torch.bool), 0.5).any()


def test_permanent_corrections_grow_by_the_same_share_every_epoch_but_the_first():
    observed = torch.full((40, 50), -1, dtype=torch.int8)
    player = make_player("ll-cp", {}, Setup(observed, K, 1e-3, epochs=5))
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(40, 50, generator=random)
    batch = Batch(torch.arange(40), logits, observed)
    counts = []
    for epoch in range(5):
        proposal = player.propose(batch, epoch / 5, torch.sigmoid)
        learnt = proposal.targets.clone()
        cost = network_cost(logits.requires_grad_(), proposal, K)
        (gradient,) = torch.autograd.grad(cost, logits)
        counts.append(int((gradient < 0).sum()))  # taken as positive in this very step
        player.respond(batch, logits.detach().sigmoid(), epoch / 5)
        player.end_epoch()
        assert int(learnt.sum()) == (counts[-2] if epoch else 0)
    # 0.02 / 5 of the 2,000, 1,992, … entries still open, rounded up
    assert counts == [0, 8, 16, 24, 32]


def test_the_default_corrects_something_in_a_small_batch():
    images, classes = 8, 20
    observed = torch.full((images, classes), -1, dtype=torch.int8)
    player = make_player("ll-cp", {}, Setup(observed, K, 1e-3))
    batch = Batch(torch.arange(images), torch.zeros(images, classes), observed)
    player.respond(batch, torch.rand(images, classes), 0.1)
    player.end_epoch()
    assert int(player.propose(batch, 0.2, torch.sigmoid).targets.sum()) == 1


def test_em_by_hand():
    def h(f):
        return f * minus_log(f) + (1 - f) * minus_log(1 - f)

    observed = sum(map(minus_log, SEEN)) + minus_log(1 - ABSENT)
    total = observed - 0.1 * sum(map(h, UNKNOWN))
    assert cost_of("em") == pytest.approx(total / 12, rel=1e-5)
    assert float(entropy(torch.tensor(0.0))) == pytest.approx(math.log(2))
    assert torch.isfinite(entropy(torch.tensor([-200.0, 200.0]))).all()


def test_apl_takes_the_lowest_predictions_of_each_class_as_soft_negatives():
    observed = torch.full((10, 2), -1, dtype=torch.int8)
    observed[0, 0] = 1
    predicted = torch.linspace(0.05, 0.95, 10)[:, None].repeat(1, 2)
    player = make_player("em-apl", {"start": 0.5}, Setup(observed, K, 1e-3, epochs=8))
    batch = Batch(torch.arange(10), predicted, observed)
    player.propose(batch, 0.5, lambda inputs: inputs)
    player.respond(batch, predicted, 0.5)
    player.end_epoch()
    # φ = 0.625, the second of four epochs: 0.9 · ½ of 9 and 10 unknown entries, the lowest
    proposal = player.propose(batch, 0.625, lambda inputs: inputs)
    chosen = proposal.weights == 0.9
    assert chosen.sum(dim=0).tolist() == [4, 4]
    assert chosen[:, 0].nonzero().flatten().tolist() == [1, 2, 3, 4]
    assert torch.equal(proposal.targets[chosen], predicted[chosen])
    assert (proposal.weights[0] == torch.tensor([1.0, 0.9])).all()


def test_apl_reaches_its_share_of_negatives_in_the_last_epoch():
    observed = torch.full((1000, 1), -1, dtype=torch.int8)
    player = make_player("em-apl", {}, Setup(observed, K, 1e-3, epochs=10))
    predicted = torch.linspace(0, 1, 1000)[:, None]
    batch = Batch(torch.arange(1000), predicted, observed)
    counts = []
    for epoch in range(10):
        proposal = player.propose(batch, epoch / 10, lambda inputs: inputs)
        counts.append(int((proposal.weights == 0.9).sum()))
        player.respond(batch, predicted, epoch / 10)
        player.end_epoch()
    assert counts == [0, 0, 0, 0, 0, 180, 360, 540, 720, 900]


def test_gr_by_hand():
    # at the start w 0, b −2, μ 0.5, σ 2; q₂ 0.01, q₃ 1
    chance = squash(-2)
    total = sum(map(minus_log, SEEN)) + minus_log(1 - ABSENT)
    for f in UNKNOWN:
        weight = math.exp(-((f - 0.5) ** 2) / 8)
        total += weight * (chance * (1 - f**0.01) / 0.01 + (1 - chance) * f)
    assert cost_of("gr") == pytest.approx(total / 12, rel=1e-5)
    # at the end w 2, μ 0.8, σ 0.5
    total = sum(map(minus_log, SEEN)) + minus_log(1 - ABSENT)
    for f in UNKNOWN:
        chance = squash(2 * f - 2)
        weight = math.exp(-((f - 0.8) ** 2) / 0.5)
        total += weight * (chance * (1 - f**0.01) / 0.01 + (1 - chance) * f)
    assert cost_of("gr", 1.0) == pytest.approx(total / 12, rel=1e-5)


def test_plmcl_by_hand():
    # û = σ(y), momentum 0.9, steps of 0.4·φ²; λ 1 pulls with (1 − 2û)·û(1 − û)
    player = player_of("plmcl")
    batch = Batch(torch.arange(3), LOGITS, OBSERVED)

    def visit(progress):
        cost = float(network_cost(LOGITS, player.propose(batch, progress, torch.sigmoid), K))
        player.respond(batch, F, progress)
        player.end_epoch()
        return cost

    # û = ½: weights 0.1·ξ with ξ = 0.8·0.7/1.3 + 0.2·φ, R with 10 / 4^1.5
    for progress in (0.0, 0.5):
        weight = 0.1 * (0.8 * 0.7 / 1.3 + 0.2 * progress)
        entropy = 0.5 * (UNOBSERVED + UNOBSERVED_AS_POSITIVE)
        expected = (POSITIVE + NEGATIVE + weight * entropy) / 12 + 1.25 * R
        assert visit(progress) == pytest.approx(expected, abs=1e-6)
    # f = 0.1 at (0, 3). φ 0: v = ½ − 0.1 = 0.4, no step. φ 0.5, step 0.1: v = 0.9·0.4 + 0.4 = 0.76,
    # y = −0.076, û = 0.481009
    soft = player.soft_labels()
    assert float(soft[0, 3]) == pytest.approx(0.481009, abs=1e-6)
    visit(1.0)
    # step 0.4: gradient 0.381009 + 0.037982·0.249639 = 0.390491, v = 0.684 + 0.390491 = 1.074491,
    # y = −0.076 − 0.429796 = −0.505796, û = 0.376179
    soft = player.soft_labels()
    assert float(soft[0, 3]) == pytest.approx(0.376179, abs=1e-6)
    for f, place in ((0.25, (2, 1)), (0.75, (2, 3)), (0.5, (1, 1))):
        latent = velocity = 0.0
        for step in (0.0, 0.1, 0.4):
            u = squash(latent)
            velocity = 0.9 * velocity + (u - f) + (1 - 2 * u) * u * (1 - u)
            latent -= step * velocity
        assert float(soft[place]) == pytest.approx(squash(latent), abs=1e-6)
    assert soft[OBSERVED != -1].tolist() == [1, 0, 1]
    again = player_of("plmcl")  # momentum goes on, too
    again.load_state({key: value.clone() for key, value in player.state().items()})
    for each in (player, again):
        each.propose(batch, 1.0, torch.sigmoid)
        each.respond(batch, F, 1.0)
        each.end_epoch()
    assert torch.equal(player.soft_labels(), again.soft_labels())


@pytest.mark.parametrize("method", ["asl", "hill", "splc", "ll-r", "ll-ct", "em", "gr"])
def test_no_prediction_is_too_sure_for_a_gradient(method):
    logits = torch.tensor([[-80.0, 80.0, 30.0, -30.0]] * 3, requires_grad=True)
    batch = Batch(torch.arange(3), logits, OBSERVED)
    proposal = player_of(method).propose(batch, 0.9, lambda inputs: inputs)
    network_cost(logits, proposal, K).backward()
    assert np.isfinite(logits.grad.numpy()).all()


# --- options of several numbers as text -----------------------------------------------------------

WRITTEN = ("1,4", "[1,4]", "(1,4)", " ( 1, 4 ) ", (1, 4), [1, 4])


@pytest.mark.parametrize("text", WRITTEN)
def test_a_pair_may_be_written_as_text(text):
    assert method_options("gr", {"slope": text}).slope == (1.0, 4.0)
    assert method_options("g2netpl", {"penalty": text}).penalty == (1.0, 4.0)


def test_a_single_number_stays_one():
    assert method_options("g2netpl", {"penalty": "0.7"}).penalty == 0.7
    assert method_options("g2netpl", {"penalty": "[0.7]"}).penalty == (0.7,)


@pytest.mark.parametrize("text", ["1", "1,2,3", "(1,x)", "(1,2"])
def test_what_is_no_pair_is_one_line(text):
    with pytest.raises(InputError, match=r"^method gr: slope: ") as caught:
        method_options("gr", {"slope": text})
    assert "\n" not in str(caught.value)


def test_a_width_is_greater_than_0():
    with pytest.raises(InputError, match="width: input should be greater than 0"):
        method_options("gr", {"width": "1,0"})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gr:slope=(0,2),an", ("gr:slope=(0,2)", "an")),
        ("an,gr:slope=[0,2]:offset=(-2,-1),epr", ("an", "gr:slope=[0,2]:offset=(-2,-1)", "epr")),
        ("an, wan", ("an", "wan")),
        ("gr:slope=(0,an", ("gr:slope=(0", "an")),
    ],
)
def test_brackets_protect_a_comma_of_a_list(text, parts):
    assert split_list("--methods", text, str) == parts
