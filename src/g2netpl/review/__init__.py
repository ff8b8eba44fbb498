"""Questions to people about labels, on a page of this machine, and their answers.

`session` holds a review, `questions` chooses what to ask, `server` and `http` serve the page and
trust nobody, `answers_writer` appends to review.jsonl.
"""
