"""The sources that adapters read, without Spark: mbox, eml, JSON lines and streams of the broker."""
