"""Write one HTML page about a capture: what is wrong, with pictures, down to the bytes that prove it."""
