"""Index a capture: any frame on request, and columns of all frames, without reading from end to end."""
