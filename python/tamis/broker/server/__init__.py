"""The broker's shell: sockets, timers and signals around the data plane.

Only this folder has sockets and clocks. One call gives a read of a socket to the data plane and returns everything to
be written. Nothing slow runs on the event loop: passwords are verified in two threads, the log has a thread, and HTTP
has a process."""
