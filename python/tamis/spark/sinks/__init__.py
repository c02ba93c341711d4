"""The sinks of batches, each of which commits the results of a batch as a whole, exactly once."""
