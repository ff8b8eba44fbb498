"""Algorithm 1 of the paper and its two players. Read `loop` first.

`loop` is the game, `batches` what both players see, `players/` has one label player per method,
`network/` the other player, `equations` the paper's formulas, `methods` the table of all methods.
A method of your own is one class and one row; nothing else in this room needs to change.
"""

from typing import TYPE_CHECKING

from g2netpl.base.lazy import lazily

if TYPE_CHECKING:
    from g2netpl.base.options import Options as Options
    from g2netpl.game.batches import Batch as Batch
    from g2netpl.game.batches import training_batches as training_batches
    from g2netpl.game.loop import play_epoch as play_epoch
    from g2netpl.game.methods import METHODS as METHODS
    from g2netpl.game.methods import Method as Method
    from g2netpl.game.methods import make_player as make_player
    from g2netpl.game.network.network import BACKBONES as BACKBONES
    from g2netpl.game.network.network import Backbone as Backbone
    from g2netpl.game.network.network import build_network as build_network
    from g2netpl.game.player import LabelPlayer as LabelPlayer
    from g2netpl.game.player import Needs as Needs
    from g2netpl.game.player import Predict as Predict
    from g2netpl.game.player import Proposal as Proposal
    from g2netpl.game.player import Setup as Setup
    from g2netpl.images.loader import ArraySource as ArraySource

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "base.options": "Options",
        "images.loader": "ArraySource",
        "game.batches": "Batch training_batches",
        "game.loop": "play_epoch",
        "game.methods": "make_player Method METHODS",
        "game.network.network": "Backbone BACKBONES build_network",
        "game.player": "LabelPlayer Needs Predict Proposal Setup",
    },
)
