"""From captured packets to ordered bytes of TCP connections. Knows no DCP and does no I/O."""
