"""Knows nothing of labels or models: errors, options, files, locks, console, processes.

Every package may import from here; nothing here imports from another package. Files are written
through `files`, and text for a person goes through `console`.
"""
