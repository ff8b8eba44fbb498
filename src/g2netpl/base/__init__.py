"""The room of base."""
