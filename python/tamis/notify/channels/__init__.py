"""The channels: one file for each kind of delivery, what all of them do, and what several share."""
