"""Questions to people about labels, on a page of this machine, and their answers.

`session` asks whether a class is in a picture and `questions` chooses about which, `photos` asks
about the likely classes of a picture together, `counting` how many there are; `asking` is what all
share. `server` and `http` serve the page and trust nobody, `answers_writer` appends to
review.jsonl. `label_studio` lets Label Studio ask instead: `learner` predicts for it, takes its
answers and is trained on them.
"""
