"""The broker: its configuration, its control plane (who may do what), and the shell around the data plane.

The data plane, which handles everything after connection.open, is written in Rust (`tamis._core.Broker`). Only the
folder `server` has sockets and clocks."""
