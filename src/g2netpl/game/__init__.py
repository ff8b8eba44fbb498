"""The room of game."""
