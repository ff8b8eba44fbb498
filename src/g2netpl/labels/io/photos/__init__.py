"""Keywords of photos, in the files and in sidecars; the label format is `photo_tags`."""
