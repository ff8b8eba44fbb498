"""Pages and pictures for people: a run, a comparison, a reproduction, an inspection.

`page` renders a template into one file that loads nothing, `charts` draws inline SVG, `figures`
makes PNG with the numbers beside them as CSV.
"""
