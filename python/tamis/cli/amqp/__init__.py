"""Commands for clients of a broker: publish, consume, tail."""
