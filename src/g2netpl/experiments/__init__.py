"""The room of experiments."""
