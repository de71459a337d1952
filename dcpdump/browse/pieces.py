"""Pieces: what lines of the screen are made of."""

#: A text, and its style in the words of Rich.
Piece = tuple[str, str]
