"""Commands for pipelines: run, adapter, demo."""
