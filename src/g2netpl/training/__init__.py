"""One training, from its data to its results.

`session` is `train`, `data` what it trains on, `phases` and `epochs` the way through it,
`checkpoints` and `saving` what makes a resume exact, `results` what it leaves behind, `estimator`
the same behind scikit-learn's fit and predict.
"""
