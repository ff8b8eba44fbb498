"""What is known about each image: tables of 1, 0 and −1, settings that hide labels, label files.

`table` is the label table, `entries` its two forms in memory, `settings` and `masks` decide what
stays visible, `paths` finds the images, `formats/` has one file per format. No torch here.
"""
