"""The paper's experiments as recipes, and the numbers it published.

A recipe says which methods are trained in which settings. The published numbers stand beside ours
on the page of `g2netpl reproduce`; nothing is ever fitted to them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from g2netpl.utils.errors import InputError, did_you_mean

SSPL = ("sspl:0.2", "sspl:0.4", "sspl:0.6", "sspl:0.8")
_BASELINES = ("an", "an-ls", "wan", "epr", "role")
OURS = "g2netpl:annotation=random"  # a sigmoid for every class, as the paper has
_PARTIAL = (*_BASELINES, "g2netpl-paper", OURS)
_LABELLED_ONLY = "an:unlabelled_images=ignore"
_BOTH_READINGS = (
    f"g2netpl-paper is the literal reading of the paper's words, {OURS} the same method with our "
    "weights; both have a sigmoid per class. Each is compared with the paper's G²NetPL."
)

FIXED = f"{OURS}:response=fixed:map=sigmoid:beta=1:gamma=0"  # û = ½ for good, and ξ = 1
SIGMOID = f"{OURS}:map=sigmoid:beta=1:gamma=0"
SCHEDULED = f"{OURS}:map=sigmoid"


@dataclass(frozen=True)
class Block:
    """Methods that are trained in the same settings."""

    methods: tuple[str, ...]
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Recipe:
    """One table or figure of the paper."""

    title: str
    about: str
    blocks: tuple[Block, ...]
    names: Mapping[str, str] = field(default_factory=dict)  # what the paper calls a method's row
    watches_labels: bool = False  # pseudo-labels and predictions are followed over the epochs
    lp_ft: bool = False  # linear, then full, as in the paper; else full
    compares: bool = False  # a table of methods, where others may stand too

    def name_of(self, method: str) -> str:
        """How a row is called on the page."""
        return self.names.get(method, method)

    def with_methods(self, methods: Sequence[str]) -> "Recipe":
        """The same with more rows, in the settings of G²NetPL."""
        block = next(block for block in self.blocks if OURS in block.methods)
        more = tuple(method for method in methods if method not in block.methods)
        if not more:
            return self
        about = f"{self.about} Added here: {', '.join(more)}."
        return replace(self, about=about, blocks=(*self.blocks, Block(more, block.settings)))


RECIPES: dict[str, Recipe] = {
    "table1": Recipe(
        "Table 1: one positive label on every image",
        "All methods at FSPL, with full labels and with one label of each sign as references. "
        + _BOTH_READINGS,
        (
            Block(("bce", "bce-ls"), ("full",)),
            Block(("iu",), ("positives:1+1",)),
            Block(_PARTIAL, ("fspl",)),
        ),
        compares=True,
    ),
    "table2": Recipe(
        "Table 2: one positive label on a part of the images",
        "SSPL with 20 to 80 % of the images labelled. The paper also holds its own 60 and 80 % "
        "against ROLE at FSPL. AN takes unlabelled images as negatives throughout; beside it, for "
        "reference, it learns from the labelled images alone, which the paper does not have. "
        + _BOTH_READINGS,
        (Block(("an", _LABELLED_ONLY, *_PARTIAL[1:]), SSPL), Block(("role",), ("fspl",))),
        {_LABELLED_ONLY: "an, labelled images only"},
        compares=True,
    ),
    "ablation": Recipe(
        "Ablation: what each step of the method adds",
        "The baseline takes unobserved as negative. The second row, which the paper does not have, "
        "changes several things at once: it has the weights and R of G²NetPL, but fixed "
        "pseudo-labels of ½, which count less than observed labels. From there on each row changes "
        "one thing: pseudo-labels are updated, ξ weights them, F is another.",
        (Block(("an", FIXED, SIGMOID, SCHEDULED, OURS), ("sspl:0.2", "fspl")),),
        {
            "an": "baseline (AN)",
            FIXED: "weights and R, pseudo-labels fixed at ½",
            SIGMOID: "G²NetPL with F = sigmoid",
            SCHEDULED: "+ ξ, weights by confidence",
            OURS: "+ F = CDF of a Gaussian",
        },
        lp_ft=True,
    ),
    "convergence": Recipe(
        "Convergence of pseudo labels and predictions",
        "Entries that nobody observed, by their hidden truth: median and quartiles after each "
        "epoch.",
        (Block((OURS,), ("fspl",)),),
        watches_labels=True,
    ),
    "semi-supervised": Recipe(
        "Against semi-supervised methods",
        "FixMatch and UPS in our multi-label form (the paper gives none) over the labelled share.",
        (Block(("fixmatch", "ups", OURS), SSPL),),
        compares=True,
    ),
    "parameters": Recipe(
        "The parameters: densities of F and the scheduler ξ",
        "Drawn from the equations; nothing is trained.",
        (),
    ),
    "labels": Recipe(
        "Quality of the pseudo labels against the hidden truth",
        "mAP of soft labels on the training images: at the end over all entries, as the paper "
        "seems to count, and after each epoch over the hidden entries alone.",
        (Block((OURS, "role"), ("fspl",)),),
        watches_labels=True,
    ),
}


def find_recipes(what: str) -> dict[str, Recipe]:
    """One recipe by name, or all; those that follow the labels come first, as others share them."""
    if what == "all":
        order = sorted(RECIPES, key=lambda name: not RECIPES[name].watches_labels)
        return {name: RECIPES[name] for name in order}
    if what not in RECIPES:
        raise InputError(f"unknown recipe {what!r} ({did_you_mean(what, [*RECIPES, 'all'])})")
    return {what: RECIPES[what]}


def with_methods(recipes: Mapping[str, Recipe], methods: Sequence[str]) -> dict[str, Recipe]:
    """More rows for the tables of methods among the recipes."""
    if not any(recipe.compares for recipe in recipes.values()):
        tables = ", ".join(name for name, recipe in RECIPES.items() if recipe.compares)
        raise InputError(
            f"--methods: {', '.join(recipes)} is no table of methods; it goes with {tables} or all"
        )
    return {
        name: recipe.with_methods(methods) if recipe.compares else recipe
        for name, recipe in recipes.items()
    }


# --- what the paper published: test mAP × 100 -----------------------------------------------------

Figures = dict[tuple[str, str], float]

_PRINTED = (*_BASELINES, OURS)
_ROWS = {  # (method, setting) in the order of the numbers below
    "table1": [
        *(("bce", "full"), ("bce-ls", "full"), ("iu", "positives:1+1")),
        *((method, "fspl") for method in _PRINTED),
    ],
    "table2": [*product(_PRINTED, SSPL), ("role", "fspl")],
    "ablation": [*product(("an", SIGMOID, SCHEDULED, OURS), ("sspl:0.2", "fspl"))],
    "labels": [(OURS, "fspl"), ("role", "fspl")],
}
_NUMBERS = {
    ("table1", "VOC"): "89.1 90.0 83.2 85.1 86.7 86.5 85.5 87.9 88.8",
    ("table1", "COCO"): "75.5 76.8 59.7 64.1 66.9 64.8 63.3 66.3 72.4",
    ("table1", "NUS-WIDE"): "52.6 53.5 42.9 42.0 44.9 46.3 46.0 43.1 49.7",
    ("table2", "VOC"): "51.3 71.7 80.2 82.8 70.0 79.0 85.0 86.1 76.4 82.5 85.1 85.6 "
    "75.5 81.0 83.9 84.5 66.9 80.9 85.9 86.8 79.6 85.2 87.6 88.2 "
    "87.9",
    ("table2", "COCO"): "46.3 53.8 59.5 62.4 48.9 57.9 62.3 65.5 57.0 60.9 63.5 64.5 "
    "52.7 58.4 61.5 62.6 47.3 57.6 62.7 65.2 62.2 65.8 69.7 71.2 "
    "66.3",
    ("table2", "NUS-WIDE"): "28.5 35.2 38.9 40.8 27.8 36.0 39.1 41.4 37.6 41.3 43.7 44.8 "
    "34.9 39.5 42.3 44.2 27.0 32.2 37.1 39.7 38.4 42.9 46.9 48.5 "
    "43.1",
    ("ablation", "COCO"): "56.6 67.3 62.4 71.1 64.4 71.4 65.0 72.7",
    ("ablation", "NUS-WIDE"): "36.0 46.8 44.5 49.9 44.8 50.4 45.3 50.9",
    ("labels", "VOC"): "93.6 89.8",
}


def published(recipe: str, data: str | None) -> Figures:
    """The paper's figures of a recipe on a data set, by (method, setting); empty if there are none.

    The figure on semi-supervised methods was published as a picture only: those of table 2 stand
    there. G²NetPL is compared with both our readings, except where steps of one are compared.
    """
    recipe = "table2" if recipe == "semi-supervised" else recipe
    numbers = _NUMBERS.get((recipe, data or ""))
    if numbers is None:
        return {}
    found = dict(zip(_ROWS[recipe], map(float, numbers.split()), strict=True))
    if recipe.startswith("table"):
        paper = {setting: value for (m, setting), value in found.items() if m == OURS}
        found |= {("g2netpl-paper", setting): value for setting, value in paper.items()}
    return found


PROTOCOL = {
    "backbone": "ResNet-50, ImageNet weights",
    "images": "not said (SPML, whose benchmark it is: 448 × 448, mirrored at random)",
    "training": "end to end, 10 epochs (ablation: 25 linear + 5 of everything)",
    "optimizer": "not named (SPML: Adam); learning rate 1e-2 … 1e-5, batch 8 or 16",
    "chosen on": "“the validation set”; VOC's validation set is its test set",
    "data": "VOC 5,717 / 5,823, COCO 82,081 / 40,137, NUS-WIDE 150K / 60.2K images",
    "positives per image": "not said how the k of R is known (SPML: the truth's mean)",
    "classes": "a sigmoid for each",
    "seeds": "not said",
}
"""What the paper says about its own trainings."""

_SIGNS = {"VOC": (20, "aeroplane"), "COCO": (80, "toothbrush"), "NUS-WIDE": (81, "zebra")}


DATA_SETS = tuple(_SIGNS)


def data_set_of(classes: tuple[str, ...]) -> str | None:
    """Which of the paper's data sets has these classes."""
    for name, (count, member) in _SIGNS.items():
        if len(classes) == count and member in classes:
            return name
    return None
