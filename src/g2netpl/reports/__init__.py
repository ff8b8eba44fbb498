"""Reports as self-contained HTML pages: a run, a comparison, a reproduction.

`plots` has one function per plot, `page` fills the templates, `tables` makes tables of results.
"""
