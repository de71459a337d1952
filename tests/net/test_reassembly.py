"""RetransmitWindow: what was delivered of a direction is found again, compared, and forgotten in time."""

from dcpdump.net.reassembly import OVERHEAD, DeliveredPiece, Difference, RetransmitWindow

ALPHABET = b"abcdefghijklmnopqrstuvwxyz"


def window(*places: tuple[int, int], limit: int = 1 << 20) -> RetransmitWindow:
    """Return what was delivered from here to there of the alphabet, the first piece at 1 ns, the next at 2 …"""
    made = RetransmitWindow(limit)
    for ts_ns, (start, end) in enumerate(places, 1):
        made.add(start, ALPHABET[start:end], ts_ns)
    return made


def found(among: RetransmitWindow, *places: tuple[int, int]) -> list[int | None]:
    """Return when each of these pieces was delivered, where it is remembered."""
    pieces = [among.find(start, ALPHABET[start:end]) for start, end in places]
    return [piece and piece.ts_ns for piece in pieces]


def test_a_piece_is_found_that_begins_and_ends_where_one_did_and_has_its_bytes() -> None:
    three = window((2, 4), (4, 8), (8, 9))
    assert three.find(4, b"efgh") == DeliveredPiece(4, b"efgh", 2)
    assert found(three, (2, 4), (4, 8), (8, 9)) == [1, 2, 3]
    assert found(three, (1, 4), (2, 3), (2, 8), (3, 4), (4, 7), (5, 8), (8, 10), (9, 10)) == [None] * 8
    assert three.find(4, b"efgX") is three.find(5, b"efgh") is None


def test_the_older_half_is_forgotten_once_there_is_more_than_the_limit() -> None:
    each = 2 + OVERHEAD
    places = [(at, at + 2) for at in range(0, 10, 2)]
    full = window(*places[:4], limit=4 * each)
    assert (full.size, found(full, *places)) == (4 * each, [1, 2, 3, 4, None])
    full.add(8, b"ij", 5)
    assert (full.size, found(full, *places)) == (2 * each, [None, None, None, 4, 5])
    full.add(10, b"kl", 6)
    assert (full.size, found(full, *places, (10, 12))) == (3 * each, [None, None, None, 4, 5, 6])


def test_the_last_piece_is_remembered_whatever_the_limit() -> None:
    last = window((0, 3), (3, 9), limit=0)
    assert (last.size, found(last, (0, 3), (3, 9))) == (6 + OVERHEAD, [None, 2])


def test_what_is_delivered_after_all_was_forgotten_has_its_own_time() -> None:
    cleared = window((0, 3), (3, 9))
    cleared.clear()
    assert (cleared.size, found(cleared, (0, 3), (3, 9))) == (0, [None, None])
    assert cleared.compare(0, b"abc") == (None, 0)
    cleared.add(9, b"jkl", 7)
    assert (cleared.size, found(cleared, (9, 12))) == (3 + OVERHEAD, [7])


def test_bytes_that_were_never_there_are_counted_but_for_those_older_than_what_is_remembered() -> None:
    holed = window((3, 5), (5, 8), (10, 12), (12, 14), (17, 20))
    places = [(0, 2), (0, 4), (3, 5), (3, 8), (4, 7), (5, 9), (8, 10), (9, 12), (4, 13), (0, 26), (13, 18), (20, 23)]
    absent = [holed.compare(start, ALPHABET[start:end]) for start, end in places]
    assert absent == [(None, count) for count in (0, 0, 0, 0, 0, 1, 2, 1, 2, 2 + 3 + 6, 3, 3)]


def test_the_first_of_all_differences_is_reported_with_64_bytes_of_each_side() -> None:
    three = window((0, 3), (3, 6), (8, 12))
    assert three.compare(1, b"bcdXfghijY") == (Difference(4, b"ef", b"Xf"), 2)
    assert three.compare(5, b"fghXjY") == (Difference(8, b"ijk", b"XjY"), 2)
    three.add(12, b"m" * 100, 4)
    assert three.compare(12, b"m" * 10 + b"n" * 90) == (Difference(22, b"m" * 64, b"n" * 64), 0)
    assert three.compare(12, b"m" * 60 + b"n" * 40) == (Difference(72, b"m" * 40, b"n" * 40), 0)
