"""Write how many there are of something."""


def counted(count: int, noun: str) -> str:
    """Return a number and its noun: 1 frame, 1,200 frames."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
