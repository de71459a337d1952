"""Index: any frame of a capture at once, and the columns of all, for those who do not read it from end to end."""
