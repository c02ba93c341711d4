"""What a broker shows over HTTP: health, metrics and lists, for people's tools and for Prometheus.

A process of its own, so that nothing here can hold a message up: it asks the broker over the control socket of its data
directory, one question at a time. The full API and the console will stand beside `routes.py`."""
