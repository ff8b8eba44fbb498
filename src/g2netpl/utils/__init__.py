"""What knows nothing of labels or models: errors, options, files, locks, memory, processes.

Everybody may import from here; nothing here imports from another room. A message to a person goes
through `terminal` and `console`, a file that must not be torn through `disk`.
"""
