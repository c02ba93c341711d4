"""Reads mail and news: turns the bytes of one message into its properties and text, without files or Spark."""
