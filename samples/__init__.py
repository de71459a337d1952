"""Small captures, the script that makes them, and programs to try."""
