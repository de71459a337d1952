"""Compare two captures of the same connections: frames, clocks, streams, documents."""
