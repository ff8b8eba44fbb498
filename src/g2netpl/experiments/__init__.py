"""Many trainings: comparisons, searches, the paper's tables, and how much labelling is enough.

`grid` says which cells there are, `cells` trains them, `compare` keeps them in a folder, `paper`
has the published numbers, `reproduction` and `labelling_plan` build on all of it.
"""
