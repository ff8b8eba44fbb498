"""Runs that are killed, stopped, starved of disk and fed with damage, again and again."""
