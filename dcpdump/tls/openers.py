"""Decrypt the records of one direction under one key. The only module that imports ciphers.

It imports ``cryptography``, which takes a while: import it when there is something to decrypt.
"""

import hashlib
import hmac
from abc import ABC, abstractmethod
from typing import Final, TypeGuard

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from dcpdump.tls.records import DATA
from dcpdump.tls.suites import CBC, CCM_8, CHACHA, GCM, KeyBasis, Suite

# -- keys derived from secrets, by hashes alone -------------------------------------------------------


def expand_label(secret: bytes, label: str, length: int, digest: str) -> bytes:
    """Return HKDF-Expand-Label of TLS 1.3, at most one hash long."""
    name = b"tls13 " + label.encode()
    info = length.to_bytes(2, "big") + bytes((len(name),)) + name + b"\0\1"
    return hmac.digest(secret, info, digest)[:length]


def prf(version: int, digest: str, secret: bytes, seed: bytes, length: int) -> bytes:
    """Return the pseudorandom function of TLS 1.2, 1.1 or 1.0; ``seed`` begins with a label."""
    if version >= 0x0303:
        return _p_hash(digest, secret, seed, length)
    half = (len(secret) + 1) // 2
    one, two = _p_hash("md5", secret[:half], seed, length), _p_hash("sha1", secret[-half:], seed, length)
    return (int.from_bytes(one, "big") ^ int.from_bytes(two, "big")).to_bytes(length, "big")


def _p_hash(digest: str, secret: bytes, seed: bytes, length: int) -> bytes:
    out, a = b"", seed
    while len(out) < length:
        a = hmac.digest(secret, a, digest)
        out += hmac.digest(secret, a + seed, digest)
    return out[:length]


_BLOCK: Final = 16


class Opener(ABC):
    """A decrypter of records; ``number`` counts the records under its key."""

    __slots__ = ("basis", "before", "exact", "overhead", "suite")

    def __init__(self, suite: Suite, basis: KeyBasis | None, overhead: int, *, exact: bool = True) -> None:
        self.suite = suite
        self.basis = basis  #: inputs of its keys beside the secret, up to TLS 1.2
        self.before = b""  #: with CBC in TLS 1.0: the last block of the record before, the IV of the next
        self.overhead = overhead  #: how much longer than its text a record's body is; with CBC at least
        self.exact = exact  #: ``overhead`` is exact for records without padding, so that lost text can be counted

    @abstractmethod
    def open(self, number: int, head: bytes, body: bytes) -> tuple[int, bytes] | None:
        """Return the type and the text of a record; None if this key and number do not decrypt it."""

    @abstractmethod
    def decrypt_unverified(self, number: int, body: bytes) -> tuple[int, bytes] | None:
        """Decrypt a body with missing bytes, unverified: return the offset of the text in it, and the text.

        None if the cipher cannot do that.
        """

    def run(self, data: bytes, number: int, texts: list[bytes], ends: list[int]) -> int:
        """Decrypt the complete records of text at the beginning of ``data``, and append their texts and ends.

        Return the offset of the first record that is incomplete, is no text, is padded, or is not decrypted.
        """
        at, size, exact, overhead = 0, len(data), self.exact, self.overhead + 5
        while at + 5 <= size:
            head = data[at : at + 5]
            end = at + 5 + (head[3] << 8 | head[4])
            if end > size or head[0] != DATA:
                break
            found = self.open(number, head, data[at + 5 : end])
            if found is None or found[0] != DATA or (exact and end - at - overhead != len(found[1])):
                break
            texts.append(found[1])
            ends.append(end)
            number += 1
            at = end
        return at


def _aead(suite: Suite, key: bytes) -> AESGCM | AESCCM | ChaCha20Poly1305:
    if suite.kind == GCM:
        return AESGCM(key)
    if suite.kind == CHACHA:
        return ChaCha20Poly1305(key)
    return AESCCM(key, tag_length=8 if suite.kind == CCM_8 else 16)


def _unproven(suite: Suite, key: bytes, nonce: bytes, data: bytes) -> bytes:
    """Decrypt with the stream cipher of an AEAD, without checking the tag."""
    if suite.kind == CHACHA:
        cipher = Cipher(algorithms.ChaCha20(key, b"\1\0\0\0" + nonce), None)
    else:
        block = nonce + b"\0\0\0\2" if suite.kind == GCM else b"\2" + nonce + b"\0\0\1"
        cipher = Cipher(algorithms.AES(key), modes.CTR(block))
    text: bytes = cipher.decryptor().update(data)
    return text


class Opener13(Opener):
    """TLS 1.3: the nonce is made from the number, the type follows the text."""

    __slots__ = ("_decrypt", "_secret", "_tag", "block_key", "iv")

    def __init__(self, suite: Suite, secret: bytes) -> None:
        self._tag = 8 if suite.kind == CCM_8 else 16
        super().__init__(suite, None, self._tag + 1)
        self._secret = secret
        self.block_key = expand_label(secret, "key", suite.key, suite.digest)  #: for the search of a record's number
        self.iv = int.from_bytes(expand_label(secret, "iv", 12, suite.digest), "big")
        self._decrypt = _aead(suite, self.block_key).decrypt

    def open(self, number: int, head: bytes, body: bytes) -> tuple[int, bytes] | None:
        """Return the inner type and the text without padding."""
        try:
            inner = self._decrypt((self.iv ^ number).to_bytes(12, "big"), body, head)
        except (InvalidTag, ValueError):  # ValueError: shorter than a tag
            return None
        if not inner or not inner[-1]:
            inner = inner.rstrip(b"\0")
        return (inner[-1], inner[:-1]) if inner else None

    def decrypt_unverified(self, number: int, body: bytes) -> tuple[int, bytes] | None:
        """Decrypt, unverified; the last byte is the type, or padding."""
        nonce = (self.iv ^ number).to_bytes(12, "big")
        return 0, _unproven(self.suite, self.block_key, nonce, body[: max(len(body) - self._tag, 0)])

    def next(self) -> "Opener13":
        """Return the opener after a KeyUpdate."""
        digest = self.suite.digest
        length = hashlib.new(digest).digest_size
        return Opener13(self.suite, expand_label(self._secret, "traffic upd", length, digest))


class _Opener12(Opener):
    """TLS 1.2 with an AEAD: a part of the nonce may be in the record; the number is authenticated."""

    __slots__ = ("_decrypt", "_iv", "_key", "_number", "_tag")

    def __init__(self, suite: Suite, key: bytes, iv: bytes, basis: KeyBasis) -> None:
        self._tag = 8 if suite.kind == CCM_8 else 16
        super().__init__(suite, basis, self._tag + (0 if suite.kind == CHACHA else 8))
        self._key, self._iv = key, iv
        self._number = int.from_bytes(iv, "big") if suite.kind == CHACHA else 0
        self._decrypt = _aead(suite, key).decrypt

    def open(self, number: int, head: bytes, body: bytes) -> tuple[int, bytes] | None:
        """Return the type in the header, and the text."""
        length = len(body) - self.overhead
        if length < 0:
            return None
        seal = number.to_bytes(8, "big") + head[:3] + length.to_bytes(2, "big")
        if self.suite.kind == CHACHA:
            nonce, data = (self._number ^ number).to_bytes(12, "big"), body
        else:
            nonce, data = self._iv + body[:8], body[8:]
        try:
            return head[0], self._decrypt(nonce, data, seal)
        except InvalidTag:
            return None

    def decrypt_unverified(self, number: int, body: bytes) -> tuple[int, bytes] | None:
        """Decrypt without proof."""
        stop = max(len(body) - self._tag, 0)
        if self.suite.kind == CHACHA:
            return 0, _unproven(self.suite, self._key, (self._number ^ number).to_bytes(12, "big"), body[:stop])
        return 8, _unproven(self.suite, self._key, self._iv + body[:8], body[8:stop])


class _OpenerCbc(Opener):
    """TLS 1.0 to 1.2 with AES-CBC; the MAC is inside the encryption, or outside (RFC 7366)."""

    __slots__ = ("_etm", "_key", "_mac", "_size", "_version")

    def __init__(self, suite: Suite, keys: tuple[bytes, bytes, bytes], basis: KeyBasis) -> None:
        self._version = version = basis.version
        self._etm = basis.etm
        self._mac, self._key, iv = keys
        self._size = len(self._mac)
        super().__init__(suite, basis, self._size + 1 + (_BLOCK if version >= 0x0302 else 0), exact=False)
        self.before = iv if version < 0x0302 else b""

    def open(self, number: int, head: bytes, body: bytes) -> tuple[int, bytes] | None:
        """Return the type in the header, and the text without MAC and padding."""
        sealed, mac = (body[: -self._size], body[-self._size :]) if self._etm else (body, b"")
        last = sealed[-_BLOCK:]
        iv, sealed = (self.before, sealed) if self._version < 0x0302 else (sealed[:_BLOCK], sealed[_BLOCK:])
        if len(iv) != _BLOCK or not sealed or len(sealed) % _BLOCK:
            return None
        if self._etm and mac != self._made(number, head, body[: -self._size]):
            return None
        text = Cipher(algorithms.AES(self._key), modes.CBC(iv)).decryptor().update(sealed)
        end = len(text) - text[-1] - 1
        if end < 0:
            return None
        if not self._etm:
            text, mac, end = text[: max(end - self._size, 0)], text[max(end - self._size, 0) : end], end - self._size
            if end < 0 or mac != self._made(number, head, text):
                return None
        self._chain(last)
        return head[0], text[:end]

    def decrypt_unverified(self, number: int, body: bytes) -> None:
        """Return nothing: a missing block spoils the next one, and the length is not known."""
        self._chain(body[: len(body) - self._size][-_BLOCK:] if self._etm else body[-_BLOCK:])

    def _chain(self, last: bytes) -> None:
        if self._version < 0x0302:
            self.before = last

    def _made(self, number: int, head: bytes, data: bytes) -> bytes:
        seal = number.to_bytes(8, "big") + head[:3] + len(data).to_bytes(2, "big")
        return hmac.digest(self._mac, seal + data, self.suite.mac)


def opener12(suite: Suite, master: bytes, basis: KeyBasis) -> Opener:
    """Return the opener of one side's records."""
    version, randoms, server, _ = basis
    digest = suite.digest if version >= 0x0303 else ""
    mac = hashlib.new(suite.mac).digest_size if suite.kind == CBC else 0
    iv = _BLOCK if suite.kind == CBC and version < 0x0302 else 12 if suite.kind == CHACHA else 4
    iv = 0 if suite.kind == CBC and version >= 0x0302 else iv
    block = prf(version, digest, master, b"key expansion" + randoms, 2 * (mac + suite.key + iv))
    pieces, at = [], 0
    for size in (mac, suite.key, iv):
        start = at + size * server
        pieces.append(block[start : start + size])
        at += 2 * size
    if suite.kind == CBC:
        return _OpenerCbc(suite, (pieces[0], pieces[1], pieces[2]), basis)
    return _Opener12(suite, pieces[1], pieces[2], basis)


# -- numbers of records, found by trying; of AES-GCM, many at once ------------------------------------
# The inner text of a TLS 1.3 record ends with its type, 23 for data. So one block of the key stream rules out nearly
# every wrong number, and one call makes thousands of blocks.

_MANY: Final = 1 << 16
#: Blocks of one call: few enough for the processor's cache.
_BLOCKS: Final = 1 << 12
#: From so many numbers on, making blocks is faster than decrypting the record.
_LEAST: Final = 2_048
_HIGH: Final = bytes(number >> 8 for number in range(_MANY))
_LOW: Final = bytes(number & 255 for number in range(_MANY))
_XORED: Final = [bytes(each ^ byte for each in range(256)) for byte in range(256)]


def is_fast(opener: Opener) -> TypeGuard[Opener13]:
    """Return whether an opener can try many numbers at once."""
    return isinstance(opener, Opener13) and opener.suite.kind == GCM


Found = tuple[int, tuple[int, bytes]]


def find_number(opener: Opener, head: bytes, body: bytes, first: int, stop: int) -> Found | None:
    """Find the number from ``first`` to ``stop``-1 that decrypts a record; return it with the type and text.

    Return None without such a number.
    """
    if is_fast(opener) and stop - first > _LEAST and len(body) > 16:
        return _among_many(opener, head, body, first, stop)
    for number in range(first, stop):
        found = opener.open(number, head, body)
        if found is not None:
            return number, found
    return None


def _among_many(opener: Opener13, head: bytes, body: bytes, first: int, stop: int) -> Found | None:
    last = len(body) - 17  # the offset of the inner text's last byte
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
