"""The weight of an observed negative, which the losses of method and head share."""

import numpy as np
import pytest
import torch

from g2netpl.experiments.cells import trainer_of
from g2netpl.experiments.data import ArrayData
from g2netpl.experiments.grid import Comparison
from g2netpl.labels.table import LabelTable

RANDOM = np.random.default_rng(0)
FEATURES = torch.from_numpy(RANDOM.normal(size=(40, 5)).astype(np.float32))
TABLE = LabelTable(
    tuple(map(str, range(40))), tuple("abcd"), (FEATURES.numpy()[:, :4] > 0).astype(np.int8)
)


@pytest.mark.parametrize(("given", "weight"), [("negative_weight=0.25", 0.25), ("beta=0.8", None)])
def test_observed_negatives_have_the_weight_of_the_method(given, weight):
    """Without a weight: w + (1 − w)·f with w = 0.1, and f the fraction that is observed."""
    method = f"g2netpl:annotation=sampled:{given}"
    comparison = Comparison(None, (method,), ("known:0.5",), (0,), (1e-3,), epochs=1)
    trainer = trainer_of(ArrayData(FEATURES, TABLE, None, None), comparison, comparison.cells()[0])
    trainer.fit()
    visible = trainer.data.visible.values
    assert (visible == 0).any()
    expected = 0.1 + 0.9 * (visible != -1).mean() if weight is None else weight
    assert trainer.method.negative_weight == pytest.approx(expected)
