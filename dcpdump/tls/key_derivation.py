"""Derive keys from secrets, as TLS does. Hashes only; knows no cipher."""

import hmac


def expand_label(secret: bytes, label: str, length: int, digest: str) -> bytes:
    """Return what HKDF-Expand-Label of TLS 1.3 makes of a secret; a hash is as long as is ever asked for."""
    name = b"tls13 " + label.encode()
    info = length.to_bytes(2, "big") + bytes((len(name),)) + name + b"\0\1"
    return hmac.digest(secret, info, digest)[:length]


def prf(version: int, digest: str, secret: bytes, seed: bytes, length: int) -> bytes:
    """Return what the pseudorandom function of TLS 1.2, 1.1 or 1.0 makes of a secret; ``seed`` begins with a label."""
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
