"""From image files to batches of pixels or features, the same for any number of processes.

`pixels` decodes one file, `views` augments, `loader` gives batches, `features` and `kept_tables`
keep what a frozen backbone says, `inspection` is behind `g2netpl check`, `thumbnails` are
for pages, `scenes` is built-in data.
"""
