"""The room of images."""
