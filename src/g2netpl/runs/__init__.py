"""The run folder: the only room that knows the names of the files in it.

`config` says what a run is, `run` reads one, `ownership` and `aside` say whose a folder is,
`thresholds` and `completion` turn scores into labels, `bundle` and `export` take them elsewhere.
"""
