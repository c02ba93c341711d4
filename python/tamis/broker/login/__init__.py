"""Logging in: the AMQP handshake, SASL, passwords, and delays for wrong logins."""
