"""Mask what of a frame may be a credential by asterisks."""

from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.spec.names import MECHANISMS

MASK = b"*"
_MECHANISM = lazy_pattern(rb"(?:%b)\Z" % MECHANISMS.encode())
_PLAIN_NAME = lazy_pattern(rb"[\w.@-]*")  # of a mechanism or a user: the only part of a secret that is shown

_MOST_SAID = 4096
#: JSON of an error that has nothing but what servers say of one, and the reference to their log.
_ERROR = lazy_pattern(
    rb'\{"error": ?\{(?:"(?:context|ref)": ?"(?:[^"\\]|\\.)*"(?:, ?(?=")|(?=\})))+\}\}',
)


def is_error(body: bytes) -> bool:
    """Return whether a body is what a server says of an error, which has no credential."""
    return len(body) <= _MOST_SAID and _ERROR.fullmatch(body) is not None


def looks_secret(data: bytes, extras: int, key_length: int) -> bool:
    """Return whether it is an authentication whose opcode or magic is damaged: its key is a mechanism.

    ``extras``: where the extras end, and so where the key begins.
    """
    if extras != HEADER_LENGTH:
        return False
    return _MECHANISM.match(data, HEADER_LENGTH, HEADER_LENGTH + max(key_length, 0)) is not None


def masked_body(data: bytes, framing: int, extras: int, key: int) -> bytes:
    """Return the bytes with whatever may be a credential masked: all of the body but a key that is a plain name.

    ``framing``, ``extras`` and ``key`` are where these sections end. Where lengths are damaged a credential may stand
    in any of them, and behind the frame's end: also in what the header calls the key, unless that is where the body
    begins.
    """
    name = data[extras:key]
    kept = name if extras == HEADER_LENGTH and _PLAIN_NAME.fullmatch(name) else MASK * len(name)
    return data[:framing] + MASK * len(data[framing:extras]) + kept + MASK * len(data[key:])
