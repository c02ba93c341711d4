"""Configuration files: reads TOML, names the line of an error, and defines and checks pipeline.toml."""
