"""What is known about each image: tables of 1, 0 and −1, settings that hide labels, label files.

`table` is the label table. `settings` and `masks` decide what stays visible, `splits` what is held
out; `observation` says what labels tell of themselves, `look_alikes` which classes may be one.
`paths` finds the images, by `spelling` and `near_names` also under other names. `files` has the
names of label files, `fetching` copies those of a store, `formats/` reads and writes them, a file
per format. No torch here.
"""
