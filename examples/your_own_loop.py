"""Losses for partial labels in a training loop of your own: plain PyTorch, Lightning or timm.

A method needs the logits, the observed labels (1, 0, or -1 for unobserved) and the positions of the
images in the training set. Any data set of (image, target) will do, such as those of torchvision.
FixMatch needs two augmentations, UPS needs rounds, `sampled` and the annotation model that
`g2netpl train` chooses need a head: see sampled_positive_loop.py.

    python examples/your_own_loop.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from g2netpl.core import Batch, Output, build_method

torch.manual_seed(0)
images = torch.randn(2000, 20)
truth = (images @ torch.randn(20, 8) > 3).to(torch.int8)  # 8 classes, about 2 per image
truth[torch.arange(2000), images[:, :8].argmax(1)] = 1  # at least one
observed = torch.full_like(truth, -1)  # one positive per image is observed, the rest is unknown
observed[torch.arange(2000), torch.multinomial(truth.float(), 1).flatten()] = 1
dataset = TensorDataset(images, observed)  # yours: (image, target)
with_rows = [(row, *dataset[row]) for row in range(len(dataset))]  # (position, image, target)
epochs, lr = 10, 1e-2

for name in ("an", "epr", "g2netpl"):
    method = build_method(name, observed, k=2.2, epochs=epochs, lr=lr)  # k: positives per image
    model = nn.Linear(20, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        phi = epoch / epochs  # fraction of epochs finished
        method.start_epoch(phi)
        for rows, inputs, targets in DataLoader(with_rows, batch_size=64, shuffle=True):
            logits, batch = model(inputs), Batch(rows, targets)
            optimizer.zero_grad()
            method.loss(Output(logits), batch, phi).backward()
            optimizer.step()
            method.update(batch, logits.detach().sigmoid(), phi)  # pseudo-labels move
    unknown = observed == -1
    added, hidden = (model(images) > 0) & unknown, (truth == 1) & unknown
    right = int((added & hidden).sum())
    print(f"{name:8} finds {right / int(hidden.sum()):.0%} of the hidden positives, ", end="")
    print(f"{right / int(added.sum()):.0%} of what it adds is right")
