"""Replace texts by pseudonyms: equal texts get equal ones, of the same length; a salt keys them.

Without the salt, a text cannot be recovered from its pseudonym, and candidates cannot be tried. Different texts have
different pseudonyms: always for short texts of letters, digits, ``-`` and ``_``; with near certainty for long ones.
Short texts with other bytes may share one.
"""

from hashlib import sha256, shake_128

_SIGNS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_ALPHABET = bytes(_SIGNS[byte % 64] for byte in range(256))
_LETTERS = bytes(_SIGNS[byte % 52] for byte in range(256))
_DIGITS = bytes(b"123456789"[byte % 9] for byte in range(256))


_PLACES = {sign: place for place, sign in enumerate(_SIGNS)}
_BITS = 6  #: of a sign
_SHORT = 10  #: bytes; longer texts practically never share a hash
_ROUNDS = 4


class Pseudonyms:
    """The pseudonyms of one salt."""

    def __init__(self, salt: bytes) -> None:
        self._salt = sha256(salt).digest()

    def noise(self, text: bytes, size: int) -> bytes:
        """Return ``size`` bytes that depend on a text and the salt."""
        return shake_128(self._salt + text).digest(size)

    def text(self, text: bytes) -> bytes:
        """Return a text of the same length, of letters, digits, ``-`` and ``_``."""
        if len(text) <= _SHORT and not text.translate(None, _SIGNS):
            return self._permuted(text)
        return self.noise(text, len(text)).translate(_ALPHABET)

    def _permuted(self, text: bytes) -> bytes:
        """Return the image of a text under a keyed permutation of all such texts of its length.

        The permutation is a Feistel network: no two texts have the same image, for any round function.
        """
        size = len(text)
        half = _BITS * size // 2
        number = 0
        for sign in text:
            number = number << _BITS | _PLACES[sign]
        left, right = number >> half, number & (1 << half) - 1
        for turn in range(_ROUNDS):
            drawn = int.from_bytes(self.noise(b"%d %d %d" % (size, turn, right), 4), "big")
            left, right = right, left ^ drawn & (1 << half) - 1
        number = left << half | right
        return bytes(_SIGNS[number >> _BITS * place & 63] for place in range(size))

    def letters(self, text: bytes) -> bytes:
        """Return a text of the same length, of letters: neither JSON nor a number."""
        return self.noise(text, len(text)).translate(_LETTERS)

    def json(self, text: bytes) -> bytes:
        """Return JSON of the same length: a string, or a digit where the text is too short for one."""
        if len(text) < 2:
            return self.noise(text, len(text)).translate(_DIGITS)
        return b'"' + self.noise(text, len(text) - 2).translate(_ALPHABET) + b'"'

    def credential(self, size: int) -> bytes:
        """Return the pseudonym of a credential: it depends on the length alone."""
        return self.noise(b"credential", size).translate(_LETTERS)


def digits(noise: bytes) -> bytes:
    """Return noise as digits from 1 to 9."""
    return noise.translate(_DIGITS)


def letters(noise: bytes) -> bytes:
    """Return noise as letters."""
    return noise.translate(_LETTERS)
