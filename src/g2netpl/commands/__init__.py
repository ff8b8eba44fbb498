"""The commands, one per file: the docstring is the help, `add_flags` and `run` do the rest.

Modules here import nothing heavy at the top, so that `--help` answers at once.
"""
