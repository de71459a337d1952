"""Convert bytes to frames and back. Knows no TCP, no file and no clock."""
