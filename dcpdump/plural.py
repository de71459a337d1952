"""Write how many there are of something."""


def counted(count: int, noun: str) -> str:
    """Return a number and its noun: 1 frame, 1,200 frames."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def measured(count: int, unknown: int, unit: str = "byte") -> str:
    """Return ``count`` bytes, and an unknown number more where ``unknown`` is not 0, in words; ``unit``: byte or B."""
    known = counted(count, unit) if unit == "byte" else f"{count:,} {unit}"
    if not unknown:
        return known
    return f"{known} and an unknown number more" if count else "an unknown number of bytes"
