"""Prints the table of the broker's limits for docs/broker.md, from the definitions of the settings."""

from tamis.broker.limits import table

if __name__ == "__main__":
    print(table())
