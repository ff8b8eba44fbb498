"""The paper's experiments as recipes, and the numbers it published.

A recipe says which methods are trained in which settings. The page of `g2netpl reproduce` shows the
published numbers next to ours; nothing is ever fitted to them.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

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

    def name_of(self, method: str) -> str:
        """How a row is called on the page."""
        return self.names.get(method, method)


RECIPES: dict[str, Recipe] = {
    "table1": Recipe(
        "Table 1: one positive label on every image",
        "All methods with one positive label per image (FSPL); for reference full labels, and one "
        "positive and one negative label per image. " + _BOTH_READINGS,
        (
            Block(("bce", "bce-ls"), ("full",)),
            Block(("iu",), ("positives:1+1",)),
            Block(_PARTIAL, ("fspl",)),
        ),
    ),
    "table2": Recipe(
        "Table 2: one positive label on a fraction of the images",
        "SSPL with 20 to 80 % of the images labelled. The paper also compares its own 60 and 80 % "
        "with ROLE at FSPL. AN takes unlabelled images as all negative; the row below it, which "
        "the paper does not have, learns from the labelled images only. " + _BOTH_READINGS,
        (Block(("an", _LABELLED_ONLY, *_PARTIAL[1:]), SSPL), Block(("role",), ("fspl",))),
        {_LABELLED_ONLY: "an, labelled images only"},
    ),
    "ablation": Recipe(
        "Ablation: what each step of the method adds",
        "The baseline takes unobserved as negative. The second row, which the paper does not have, "
        "changes several things at once. It has the weights and R of G²NetPL, but pseudo-labels "
        "fixed at ½, which count less than observed labels. Each later row changes one thing: "
        "pseudo-labels are updated, ξ weights them, F is the CDF.",
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
        "Convergence of pseudo-labels and predictions",
        "Unobserved labels by their hidden truth: median and quartiles after each epoch.",
        (Block((OURS,), ("fspl",)),),
        watches_labels=True,
    ),
    "semi-supervised": Recipe(
        "Against semi-supervised methods",
        "FixMatch and UPS in our multi-label form (the paper gives none), by labelled fraction.",
        (Block(("fixmatch", "ups", OURS), SSPL),),
    ),
    "parameters": Recipe(
        "The parameters: densities of F and the scheduler ξ",
        "From the equations; nothing is trained.",
        (),
    ),
    "labels": Recipe(
        "Quality of the pseudo-labels by the hidden truth",
        "mAP of pseudo-labels on the training images: at the end over all labels, as the paper "
        "seems to count, and after each epoch over the hidden labels only.",
        (Block((OURS, "role"), ("fspl",)),),
        watches_labels=True,
    ),
}


def find_recipes(what: str) -> dict[str, Recipe]:
    """One recipe by name, or all; those that watch pseudo-labels first, as others share their
    runs."""
    if what == "all":
        order = sorted(RECIPES, key=lambda name: not RECIPES[name].watches_labels)
        return {name: RECIPES[name] for name in order}
    if what not in RECIPES:
        raise InputError(f"unknown recipe {what!r} ({did_you_mean(what, [*RECIPES, 'all'])})")
    return {what: RECIPES[what]}


def published(recipe: str, data: str | None) -> dict[tuple[str, str], float]:
    """The paper's test mAP × 100 of a recipe on a data set, by (method, setting).

    The paper shows semi-supervised methods in a picture only: those rows are in table 2. Its
    G²NetPL is compared with both our readings, except if steps of one are compared.
    """
    recipe = "table2" if recipe == "semi-supervised" else recipe
    results = {}
    with (files(__package__) / "published.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if (row["recipe"], row["data"]) == (recipe, data):
                results[row["method"], row["setting"]] = float(row["map"])
                if recipe.startswith("table") and row["method"] == OURS:
                    results["g2netpl-paper", row["setting"]] = float(row["map"])
    return results


_DATA_SETS = {"VOC": (20, "aeroplane"), "COCO": (80, "toothbrush"), "NUS-WIDE": (81, "zebra")}


def data_set_of(classes: tuple[str, ...]) -> str | None:
    """Which of the paper's data sets has these classes."""
    for name, (count, member) in _DATA_SETS.items():
        if len(classes) == count and member in classes:
            return name
    return None
