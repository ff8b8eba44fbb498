"""Questions to people about labels, on a page of this machine, and their answers.

`session` asks whether a class is in a picture and `questions` chooses about which, `photos` asks
about the likely classes of a picture together. `server` and `http` serve the page and trust nobody,
`answers_writer` appends to review.jsonl.
"""
