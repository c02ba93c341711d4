"""Configuration files: reading TOML, naming the line of an error, and what a pipeline.toml holds."""
