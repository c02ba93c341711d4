"""The broker's users: their file, their permissions, and what these permit."""
