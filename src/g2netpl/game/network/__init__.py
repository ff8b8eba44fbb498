"""The network: a backbone, pooling, a classifier; weights, optimizers, and what it predicts."""
