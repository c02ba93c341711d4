"""The command that measures the engine on a given workload: bench."""
