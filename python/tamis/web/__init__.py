"""The broker's HTTP interface: health, metrics and lists, for Prometheus and other tools.

It runs in a separate process, so that nothing here can delay a message: it asks the broker over the control socket of
the data directory, one question at a time."""
