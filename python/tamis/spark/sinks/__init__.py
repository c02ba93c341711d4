"""The sinks of a batch: where its matches go. Each commits a batch as a whole, and a batch once."""
