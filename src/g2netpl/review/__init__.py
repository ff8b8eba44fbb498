"""The room of review."""
