"""The sources that adapters read: mbox, eml, JSON lines and streams of the broker. None of them knows Spark."""
