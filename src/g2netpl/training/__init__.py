"""One training, from its data to its results.

`session` is a training, `data` what it trains on, `inputs` what its network sees and `epochs` the
way through it. `train` does it in a run folder, which `saving` and `checkpoints` make
exact to resume and `results` fills; `estimator` does it behind scikit-learn's fit and predict.
"""
