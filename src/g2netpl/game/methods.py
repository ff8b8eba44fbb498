"""METHODS: every method by name, with its player, its defaults and where it comes from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from g2netpl.base.errors import InputError, did_you_mean
from g2netpl.base.options import Options
from g2netpl.game.player import LabelPlayer, Needs, Setup
from g2netpl.game.players.entropy import EntropyOptions, EntropyPlayer
from g2netpl.game.players.fixed import FixedOptions, FixedPlayer
from g2netpl.game.players.fixmatch import FixMatchOptions, FixMatchPlayer
from g2netpl.game.players.generalized import GeneralizedOptions, GeneralizedPlayer
from g2netpl.game.players.large_loss import LargeLossOptions, LargeLossPlayer
from g2netpl.game.players.robust import AsymmetricOptions, HillOptions, RobustPlayer, SplcOptions
from g2netpl.game.players.role import RoleOptions, RolePlayer
from g2netpl.game.players.soft import SoftPlayer
from g2netpl.game.players.soft_options import SoftOptions
from g2netpl.game.players.ups import UpsOptions, UpsPlayer


@dataclass(frozen=True)
class Method:
    """One row of the catalogue: all that is known of a method, beside its player's moves."""

    player: type[Any]
    options: type[Options]
    summary: str
    source: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    full_labels_only: bool = False
    observation: Literal["auto", "draw", "random"] = "random"  # how labels came to be known
    two_views: bool = False  # needs image files, and blocks that learn
    needs: Callable[[Any], Needs] = lambda options: Needs()  # with these options
    grid: tuple[str, tuple[Any, ...]] | None = None  # its main weight, and three values to try


def _game_needs(options: SoftOptions) -> Needs:
    return Needs(pools=True, prediction=options.prediction)


_SPML = "Cole et al., CVPR 2021"
_PAPER = "Abdelfattah et al., BMVC 2022"
_ROBUST = "Zhang et al., arXiv 2112.07368"

# rows that differ in their options alone
_fixed = partial(Method, FixedPlayer, FixedOptions)
_game = partial(Method, SoftPlayer, SoftOptions, needs=_game_needs)
_large_loss = partial(Method, LargeLossPlayer, LargeLossOptions, source="Kim et al., CVPR 2022")
_entropy = partial(Method, EntropyPlayer, EntropyOptions, source="Zhou et al., ECCV 2022")

METHODS: dict[str, Method] = {
    "bce": _fixed(
        "full labels, the ceiling",
        "reference",
        {"unobserved_weight": 1.0},
        full_labels_only=True,
    ),
    "bce-ls": _fixed(
        "full labels with smoothed targets 0.9 / 0.1",
        "reference",
        {"unobserved_weight": 1.0, "smoothing": 0.1},
        full_labels_only=True,
        grid=("smoothing", (0.05, 0.1, 0.2)),
    ),
    "iu": _fixed(
        "ignore what is unobserved (wants observed negatives, as in positives:1+1)",
        "Durand et al., CVPR 2019",
        {"unobserved_weight": 0.0},
    ),
    "draw": _fixed(
        "what was named is a draw from what is there; nothing is said of the unobserved",
        "ours",
        {"unobserved_weight": 0.0},
        observation="draw",
    ),
    "an": _fixed(
        "assume that unobserved means negative",
        "Kundu & Tighe, NeurIPS 2020",
        {"unobserved_weight": 1.0},
        grid=("unobserved_weight", (0.3, 1.0, 3.0)),
    ),
    "an-ls": _fixed(
        "AN with smoothed targets 0.9 / 0.1",
        _SPML,
        {"unobserved_weight": 1.0, "smoothing": 0.1},
        grid=("smoothing", (0.05, 0.1, 0.2)),
    ),
    "wan": _fixed(
        "AN with the unobserved weighted by 1/(L − 1)",
        "Mac Aodha et al., ICCV 2019",
        {"unobserved_weight": None},
        grid=("unobserved_weight", (0.005, None, 0.03)),
    ),
    "epr": _fixed(
        "ignore the unobserved, keep the expected number of positives per image",
        _SPML,
        {"unobserved_weight": 0.0, "regulariser": 1.0},
        grid=("regulariser", (0.3, 1.0, 3.0)),
    ),
    "role": Method(
        RolePlayer,
        RoleOptions,
        "estimate every label online, together with the network",
        _SPML,
        grid=("regulariser", (0.03, 0.1, 1.0)),
    ),
    "g2netpl": _game(
        "the game: soft pseudo labels against the network, our defaults",
        _PAPER,
        observation="auto",
        grid=("unobserved_weight", (0.05, 0.1, 0.2)),
    ),
    "g2netpl-paper": _game(
        "the game as we read the paper's words, all parts over B·L",
        _PAPER,
        {
            "response": "gradient",
            "map": "cdf",
            "sigma": 1.0,
            "cost": "additive",
            "penalty_width": 0.2,
            "order": "pseudo_target",
            "step_size": 1.0,
            "step_growth": 0.0,
            "momentum": 0.0,
            "penalty": 1.0,
            "penalty_shape": "gaussian",
            "beta": 0.5,
            "gamma": 1.0,
            "doubt_teaches": "network",
            "unobserved_weight": 1.0,
            "negative_weight": 1.0,
            "regulariser": 1.0,
            "prediction": "fresh",
        },
        grid=("unobserved_weight", (0.03, 0.1, 1.0)),
    ),
    "fixmatch": Method(
        FixMatchPlayer,
        FixMatchOptions,
        "the weak view of an image teaches the strong one (our form)",
        "Sohn et al., NeurIPS 2020",
        two_views=True,
        grid=("threshold", (0.8, 0.9, 0.95)),
    ),
    "ups": Method(
        UpsPlayer,
        UpsOptions,
        "rounds of training on what the round before was sure and steady about (our form)",
        "Rizve et al., ICLR 2021",
        needs=lambda options: Needs(options.rounds, options.passes, options.dropout),
        grid=("positive_mean", (0.6, 0.7, 0.8)),
    ),
    "plmcl": _game(
        "the game with momentum and û = sigmoid(y), after that paper's abstract",
        "Abdelfattah et al., arXiv 2208.09999",
        {
            "map": "sigmoid",
            "momentum": 0.9,
            "step_size": 0.4,
            "doubt_teaches": "network",
            "negative_weight": 1.0,
        },
        grid=("unobserved_weight", (0.05, 0.1, 0.2)),
    ),
    "asl": Method(
        RobustPlayer,
        AsymmetricOptions,
        "assume negative; easy negatives count less (asymmetric loss)",
        "Ridnik et al., ICCV 2021",
        grid=("negative_focus", (2.0, 4.0, 6.0)),
    ),
    "hill": Method(
        RobustPlayer,
        HillOptions,
        "assume negative; negatives the network doubts fade out",
        _ROBUST,
        grid=("peak", (1.1, 1.3, 1.5)),
    ),
    "splc": Method(
        RobustPlayer,
        SplcOptions,
        "assume negative; what the network finds positive is corrected",
        _ROBUST,
        grid=("threshold", (0.5, 0.6, 0.75)),
    ),
    "ll-r": _large_loss(
        "assume negative; the largest losses are left out",
        defaults={"action": "reject"},
        grid=("rate", (0.02, 0.05, 0.1)),
    ),
    "ll-ct": _large_loss(
        "assume negative; the largest losses are positive for this step",
        defaults={"action": "temporary"},
        grid=("rate", (0.005, 0.02, 0.05)),
    ),
    "ll-cp": _large_loss(
        "assume negative; the largest losses become positive for good",
        defaults={"action": "permanent"},
        grid=("rate", (0.005, 0.02, 0.05)),
    ),
    "em": _entropy(
        "keep the network in doubt about the unknown (entropy maximisation)",
        grid=("entropy_weight", (0.01, 0.03, 0.1)),
    ),
    "em-apl": _entropy(
        "EM, and later the surest negatives as pseudo labels",
        defaults={"negatives": 0.9},
        grid=("entropy_weight", (0.01, 0.03, 0.1)),
    ),
    "gr": Method(
        GeneralizedPlayer,
        GeneralizedOptions,
        "a robust loss whose shape follows the prediction",
        "Chen et al., IJCAI 2024",
        grid=("negative_shape", (0.5, 0.7, 1.0)),
    ),
}


def find_method(name: str) -> Method:
    """The row of METHODS, or one line with the closest name."""
    if name not in METHODS:
        raise InputError(
            f"unknown method {name!r} ({did_you_mean(name, METHODS)}); one of your own comes with "
            "--plugin FILE"
        )
    return METHODS[name]


def method_options(name: str, changes: Mapping[str, Any]) -> Options:
    """The method's defaults with some of them changed, checked."""
    method = find_method(name)
    return method.options.read({**method.defaults, **changes}, f"method {name}")


def make_player(name: str, changes: Mapping[str, Any], setup: Setup) -> LabelPlayer:
    """The label player of a method, ready for the first epoch."""
    player: LabelPlayer = find_method(name).player(setup, method_options(name, changes))
    player.needs, player.method = needs_of(name, changes), name
    return player


def needs_of(name: str, changes: Mapping[str, Any]) -> Needs:
    """What a method with these options needs of the training around its player."""
    return find_method(name).needs(method_options(name, changes))


def weights_to_try(name: str, changes: Mapping[str, Any]) -> list[str]:
    """Three values of the method's main weight as `key=value`; none if it is given, or has none."""
    grid = find_method(name).grid
    if grid is None or grid[0] in changes:
        return [""]
    return [f"{grid[0]}={value}" for value in grid[1]]


def split_variant(text: str) -> tuple[str, dict[str, str]]:
    """Read `epr:regulariser=0.3:…` as a method and changes of its options."""
    name, *pairs = text.strip().split(":")
    changes = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"method {text!r}: expected key=value after ':', got {pair!r}")
        changes[key.strip()] = value.strip()
    find_method(name)
    return name, changes
