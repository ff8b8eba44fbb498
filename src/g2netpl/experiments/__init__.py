"""Many trainings: comparisons, searches, the paper's tables, and how much labelling is enough.

`data` is what they run on, `grid` says which cells there are, `cells` and `photo_cells` train them,
`compare` keeps them in a folder, `paper` has the published numbers, `reproduction` and
`labelling_plan` build on all of it.
"""
