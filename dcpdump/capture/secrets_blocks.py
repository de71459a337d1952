"""Read the secrets inside a pcapng, block by block, or all of them at once, wherever they stand."""

from struct import unpack_from
from typing import Final

from dcpdump.capture.section import ORDERS
from dcpdump.capture.source import SourceWindow
from dcpdump.tls.secrets import KeyLog, Secrets

SECRETS: Final = 10  #: the type of the block
_TLS: Final = 0x544C534B  #: the type of secrets that is a key log
_SECTION: Final = b"\x0a\x0d\x0d\x0a"
#: A longer block is passed over.
_LONGEST: Final = 64 * 1024 * 1024


def take_secrets(body: bytes, order: str, name: str, secrets: Secrets) -> None:
    """Take the secrets of a block's body; those of other protocols are passed by."""
    if len(body) < 8:
        return
    kind, length = unpack_from(order + "II", body)
    if kind == _TLS:
        log = KeyLog(secrets, name)
        log.feed(body[8 : 8 + length])
        log.close()


def gather(window: SourceWindow, path: str, secrets: Secrets) -> None:
    """Take the secrets of all blocks of a pcapng, up to its end or to damage."""
    order = ""
    while window.need(12) >= 12:
        head = window.data[window.at : window.at + 12]
        if head[:4] == _SECTION:
            order = ORDERS.get(head[8:12], "")
        if not order:
            return
        kind, length = unpack_from(order + "II", head)
        if length < 12 or length % 4:
            return
        if kind == SECRETS and length <= _LONGEST:
            name = f"{path}@{window.offset}"
            if window.need(length) < length:
                return
            body = window.data[window.at + 8 : window.at + length - 4]
            take_secrets(body, order, name, secrets)
        if window.skip(length) < length:
            return
