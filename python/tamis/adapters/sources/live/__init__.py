"""The live sources: they fetch or receive messages, and keep them in a spool until they have been processed."""
