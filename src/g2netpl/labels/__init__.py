"""The room of labels."""
