"""Search the number of a record by trying; of AES-GCM, many numbers at once.

The inner text of a TLS 1.3 record ends with its type, and that of a record with data is 23: one block of the key
stream says of nearly all numbers that they are wrong, and thousands of blocks are made in one call.
"""

from typing import Final, TypeGuard

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dcpdump.tls.openers import DATA, Opener, Opener13
from dcpdump.tls.suites import GCM

_MANY: Final = 1 << 16
#: Blocks of one call: few enough that they stay in the cache.
_BLOCKS: Final = 1 << 12
#: From so many numbers on, making blocks is faster than opening the record.
_LEAST: Final = 2_048
_HIGH: Final = bytes(number >> 8 for number in range(_MANY))
_LOW: Final = bytes(number & 255 for number in range(_MANY))
_XORED: Final = [bytes(each ^ byte for each in range(256)) for byte in range(256)]


def is_fast(opener: Opener) -> TypeGuard[Opener13]:
    """Return whether many numbers can be tried at once."""
    return isinstance(opener, Opener13) and opener.suite.kind == GCM


Found = tuple[int, tuple[int, bytes]]


def find_number(opener: Opener, head: bytes, body: bytes, first: int, stop: int) -> Found | None:
    """Return the number from ``first`` to before ``stop`` under which a record opens, and its type and text.

    None where there is no such number.
    """
    if is_fast(opener) and stop - first > _LEAST and len(body) > 16:
        return _among_many(opener, head, body, first, stop)
    for number in range(first, stop):
        found = opener.open(number, head, body)
        if found is not None:
            return number, found
    return None


def _among_many(opener: Opener13, head: bytes, body: bytes, first: int, stop: int) -> Found | None:
    last = len(body) - 17  # the place of the inner text's last byte
    wanted = body[last] ^ DATA
    counter = (2 + last // 16).to_bytes(4, "big")
    encrypt = Cipher(algorithms.AES(opener.block_key), modes.ECB()).encryptor().update
    iv = opener.iv.to_bytes(12, "big")
    high, low = (each.translate(_XORED[byte]) for each, byte in ((_HIGH, iv[10]), (_LOW, iv[11])))
    for begin in range(first // _BLOCKS * _BLOCKS, stop, _BLOCKS):
        at = begin % _MANY
        nonce = (opener.iv ^ begin - at).to_bytes(12, "big")
        rows = bytearray((nonce + counter) * _BLOCKS)
        rows[10::16], rows[11::16] = high[at : at + _BLOCKS], low[at : at + _BLOCKS]
        stream = encrypt(rows)[last % 16 :: 16]
        at = stream.find(wanted)
        while at >= 0:
            number = begin + at
            found = opener.open(number, head, body) if first <= number < stop else None
            if found is not None:
                return number, found
            at = stream.find(wanted, at + 1)
    return None
