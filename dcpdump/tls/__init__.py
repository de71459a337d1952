"""Open TLS: the events of a connection in, the events of the text inside out. Knows TCP's events, and no DCP."""
