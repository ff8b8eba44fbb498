"""From image files to batches of pixels or features, the same for any number of processes.

`pixels` decodes a file, `transforms` augments, `sources` finds images in folders, tar files and
stores, `loader` makes batches, `features` and `feature_cache` keep the output of a frozen backbone,
`check` and `duplicates` are behind `g2netpl check`, `thumbnails` are for pages, `scenes` is the
built-in data set.
"""
