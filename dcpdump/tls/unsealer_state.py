"""Pack an unsealer as bytes: all that decides what it makes of the events that come next.

No secret is in it: what opens records is named by the connection and the label of its secret, and by a mark of it. The
bytes are a pickle: to be read only by the same version of dcpdump, and where no one else could have written them.
"""

import pickle
from io import BytesIO
from typing import Any

from dcpdump.tls.secrets import Secrets


class _Writer(pickle.Pickler):
    def persistent_id(self, each: object) -> str | None:
        """Name what is not written: the secrets, and what is made of them."""
        return "secrets" if isinstance(each, Secrets) else "opener" if hasattr(each, "glimpse") else None


class _Reader(pickle.Unpickler):
    def __init__(self, state: bytes, secrets: Secrets) -> None:
        super().__init__(BytesIO(state))
        self._secrets = secrets

    def persistent_load(self, name: str) -> Secrets | None:
        """Return the secrets of this run; what opens records is to be made of them."""
        return self._secrets if name == "secrets" else None


def packed(thing: object) -> bytes:
    """Pack what holds secrets only by reference."""
    file = BytesIO()
    _Writer(file, pickle.HIGHEST_PROTOCOL).dump(thing)
    return file.getvalue()


def unpacked(state: bytes, secrets: Secrets) -> Any:
    """Return the thing again, under secrets that were read anew."""
    return _Reader(state, secrets).load()
