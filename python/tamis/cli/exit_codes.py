"""The exit codes of the commands."""

OK, NOTHING, ERROR, BUG, DISK_FAILED, INTERRUPTED, READER_GONE = 0, 1, 2, 70, 74, 130, 141
"""70 and 74 are EX_SOFTWARE and EX_IOERR of sysexits.h; 130 and 141 are 128 + SIGINT and SIGPIPE, as shells count."""
