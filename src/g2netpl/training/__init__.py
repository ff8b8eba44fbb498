"""One training run, from its data to its results.

`trainer` is the training loop, `data` what it trains on, `datamodule` what the model sees, and
`train` runs it in a run folder: `checkpointing` saves its state there, `calibration` and `results`
follow the last epoch. `estimator` is the same behind scikit-learn's fit and predict. `probe` solves
a linear probe, `heldout` chooses its settings by held-out tags.
"""
