"""Tags that photos carry, in their headers and in sidecars; the format is `photo_tags`."""
