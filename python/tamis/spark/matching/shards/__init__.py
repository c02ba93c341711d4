"""Matches with queries in shards: in batches, which are shuffled, and in streams and the pipeline, which are not."""
