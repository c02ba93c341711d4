"""Mail and news: from the bytes of a message to its properties and text. No file and no Spark."""
