"""Measure how fast dcpdump is, beside tshark and beside merely reading the file: ``python -m tests.bench``."""
