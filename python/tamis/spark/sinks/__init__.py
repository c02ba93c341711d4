"""Holds the sinks of a batch, each of which commits the matches of a batch as a whole, and once."""
