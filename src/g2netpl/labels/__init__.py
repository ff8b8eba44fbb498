"""What is known about each image: tables of 1, 0 and −1, settings that hide labels, label files.

`table` is the label table. `settings` and `masks` decide what stays visible, `splits` what is held
out; `missingness` infers how labels came to be known, `class_warnings` reports odd classes. `paths`
finds the images, by `names` also under other names. `files` has the names of label files, `io/`
reads and writes them, a file per format. `class_names` matches class names to ImageNet classes.
"""
