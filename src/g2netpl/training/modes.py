"""Which mode a training has where none is asked for."""

from g2netpl.game.methods import find_method
from g2netpl.game.network.network import starts_trained
from g2netpl.runs.config import PhaseMode, RunConfig
from g2netpl.training.devices import on_cpu


def usual_mode(config: RunConfig) -> tuple[PhaseMode, str]:
    """The mode of a training that was asked for none, and why."""
    if config.train_from is not None:
        return "top", f"blocks from {config.train_from} on"
    if not starts_trained(config.backbone, config.pretrained, config.weights):
        return "end-to-end", f"the backbone {config.backbone} starts at random"
    learns: PhaseMode = "top" if on_cpu(config) and config.view != "weak" else "end-to-end"
    if find_method(config.method).two_views:
        return learns, f"{config.method} compares views of images"
    if config.view not in ("plain", "paper"):
        return learns, f"a frozen backbone has no {config.view} views"
    if on_cpu(config):
        return "linear", "without a GPU"
    return "end-to-end", "on a GPU"
