"""Pages and pictures for people: a run, a comparison, a reproduction, an inspection.

`page` renders a template into one file that loads nothing; a page's words are in its template.
`charts` draws, as SVG for a page or as PNG for a file. `run` and `run_charts` show a training,
`comparison` those of compare and demo, `reproduction` and `figures` the paper's experiments.
"""
