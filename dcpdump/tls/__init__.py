"""tls: the events of a TLS connection in, the events of the text inside out. Knows TCP's events, and nothing of DCP."""
