"""The room of game/network."""
