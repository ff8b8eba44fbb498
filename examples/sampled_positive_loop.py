"""The sampled-positive annotation model in a training loop of your own: what `g2netpl train` does.

Tags are sampled from the positives of an image, so a softmax learns them, and a sigmoid per class
learns the loss of the method. `SampledPositiveHead` has both; it is the last layer of your network.

    python examples/sampled_positive_loop.py
"""

import torch
from torch import nn

from g2netpl.core import Batch, Model, SampledPositiveHead, build_method, train_epoch

torch.manual_seed(0)
images = torch.randn(2000, 20)
truth = (images @ torch.randn(20, 8) > 3).to(torch.int8)  # 8 classes, about 2 per image
truth[torch.arange(2000), images[:, :8].argmax(1)] = 1  # at least one
observed = torch.full_like(truth, -1)  # one positive per image is observed, the rest is unknown
observed[torch.arange(2000), torch.multinomial(truth.float(), 1).flatten()] = 1

width, classes, epochs, lr, k = 32, 8, 10, 1e-2, 2.2  # k: expected positives per image
backbone = nn.Sequential(nn.Linear(20, width), nn.ReLU())  # yours: images to features
head = SampledPositiveHead(nn.Linear(width, classes), nn.Linear(width, classes), width, k)
model = Model(backbone, head)
method = build_method("g2netpl", observed, k=k, epochs=epochs, lr=lr, deep=True)
optimizer = torch.optim.Adam(model.parameters(), lr=lr)


def step(loss):
    """One step of your optimizer."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for epoch in range(epochs):
    batches = (Batch(rows, observed[rows], images[rows]) for rows in torch.randperm(2000).split(64))
    train_epoch(model, method, batches, step, phi=epoch / epochs)

model.eval()
predicted, unknown = head.predict(model(images)).sigmoid(), observed == -1
added, hidden = (predicted > 0.5) & unknown, (truth == 1) & unknown
right = int((added & hidden).sum())
print(f"finds {right / int(hidden.sum()):.0%} of the hidden positives, ", end="")
print(f"{right / int(added.sum()):.0%} of what it adds is right")
