"""The exit codes of the commands."""

OK, NOTHING, ERROR, BUG, INTERRUPTED, READER_GONE = 0, 1, 2, 70, 130, 141
"""70 is EX_SOFTWARE of sysexits.h; 130 and 141 are 128 + SIGINT and 128 + SIGPIPE, as shells count."""
