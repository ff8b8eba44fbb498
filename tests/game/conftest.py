"""The catalogue of methods is as it was, after each test."""

import pytest

from g2netpl.game import plugins
from g2netpl.game.methods import METHODS


@pytest.fixture(autouse=True)
def catalogue():
    """The catalogue as it was, after each test."""
    before, loaded = dict(METHODS), list(plugins.LOADED)
    yield
    METHODS.clear()
    METHODS.update(before)
    plugins.LOADED[:] = loaded
