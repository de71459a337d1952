"""Report: one HTML page of a capture: what is wrong, with pictures, down to the bytes that prove it."""
