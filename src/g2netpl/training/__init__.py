"""One training run, from its data to its results.

`trainer` is the training loop, `splits` and `data` what it trains on, `datamodule` what the model
sees. `train` runs it in a run folder: `configuration` resolves what is left open, `checkpoints`
saves, `linear_probe` solves the head, `calibration` and `results` follow the last epoch.
`estimator` is the same behind scikit-learn's fit and predict.
"""
