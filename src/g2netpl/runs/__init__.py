"""The run folder: the only room that knows the names of the files in it.

`config` says what a run is, `run` reads one, `folder` has the names of its files, `records` and
`tables` what they hold; `ownership` says who may write there. `thresholds` and
`completion` turn scores into labels, `bundle` and `export` take them elsewhere.
"""
