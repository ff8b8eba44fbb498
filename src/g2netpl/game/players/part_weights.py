"""How much each part of the network's cost counts in the game; why: docs/method/decisions.md."""

from dataclasses import dataclass

from g2netpl.game.observed import ObservedLabels
from g2netpl.game.players.soft_options import SoftOptions


@dataclass(frozen=True, slots=True)
class PartWeights:
    """The weights of L_unobs, of an observed negative and of R; an observed positive has 1."""

    unobserved: float
    negative: float
    regulariser: float

    @staticmethod
    def of(options: SoftOptions, observed: ObservedLabels, *, deep: bool) -> "PartWeights":
        """As the options say, or by the rules that hold from 10 classes to 80 and more.

        `deep` tells whether the backbone learns too.
        """
        known = observed.known_fraction if len(observed) else 1.0
        classes = max(1, observed.shape[1])
        many = max(1.0, classes / 10.0)
        labelled = min(1.0, observed.positives_per_image)
        unobserved, regulariser = options.unobserved_weight, options.regulariser
        if unobserved is None:
            unobserved = 0.1 * many ** (labelled - 1.0) if deep else 0.1
        if regulariser is None:
            regulariser = 10.0 / classes**1.5 * (many**labelled if deep else 1.0)
        negative = options.negative_weight
        if negative is None:  # most unobserved labels are negative: to observe one says little more
            least = min(unobserved, 1.0)
            negative = least + (1.0 - least) * known
        return PartWeights(unobserved, negative, regulariser)
