"""Methods written by people who knew only the paper and the docs; they run unedited."""

from pathlib import Path

import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import nn

from g2netpl.core import (
    METHODS,
    Backbone,
    Batch,
    build_method,
    build_model,
    plugins,
    train_epoch,
)
from g2netpl.core.plugins import load_plugins

FILES = sorted((Path(__file__).parent / "newcomers").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_newcomers_method_learns(path, monkeypatch):
    monkeypatch.setattr(plugins, "LOADED", [])
    before = set(METHODS)
    load_plugins([str(path)])
    (name,) = set(METHODS) - before
    try:
        random = torch.Generator().manual_seed(0)
        images = torch.randn(600, 20, generator=random)
        truth = (images @ torch.randn(20, 6, generator=random) > 3).to(torch.int8)
        observed = torch.where(torch.rand(truth.shape, generator=random) < 0.3, truth, -1)
        method = build_method(name, observed, k=1.5, epochs=15, lr=1e-2)
        model = build_model(Backbone(nn.Identity(), 20), 6, seed=0)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

        def step(loss):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        for epoch in range(15):
            order = torch.randperm(600, generator=random).split(32)
            batches = (Batch(rows, observed[rows], images[rows]) for rows in order)
            train_epoch(model, method, batches, step, phi=epoch / 15)
        with torch.no_grad():
            scores = model.predict(images)
        by_chance = float(truth.float().mean())  # mAP of a random order
        assert average_precision_score(truth, scores) > by_chance + 0.15
    finally:
        del METHODS[name]
