"""Commands for the broker itself: serve, users, journal."""
