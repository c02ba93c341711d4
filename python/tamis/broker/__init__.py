"""The broker's control plane: who may connect and do what, how it is configured; and the shell around the data plane.

The data plane itself, everything after connection.open, is Rust (`tamis._core.Broker`). Only `server.py` and what it
starts have sockets and clocks."""
