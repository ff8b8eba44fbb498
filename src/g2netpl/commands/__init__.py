"""The commands, one per file: the docstring is the help, `add_flags` and `run` do the rest.

A module here is imported only when its command is chosen. `flags` makes flags from the keys of the
configuration.
"""
