"""The run folder and what is made of it: predictions, completed labels, thresholds, bundles.

`config` is what a run is asked for, `run` reads its folder, `records` names the files in it.
`thresholds` and `completion` turn scores into labels; `bundle` and `export` take them elsewhere.
"""
