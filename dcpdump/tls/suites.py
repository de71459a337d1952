"""List cipher suites by number, with what decrypting records needs."""

from typing import Final, NamedTuple

GCM: Final = "GCM"
CCM: Final = "CCM"
CCM_8: Final = "CCM-8"
CHACHA: Final = "ChaCha20-Poly1305"
CBC: Final = "CBC"


class Suite(NamedTuple):
    """A cipher suite: ``digest`` derives its keys, ``mac`` authenticates records of CBC."""

    number: int
    kind: str
    key: int  #: bytes
    digest: str
    mac: str = ""

    @property
    def name(self) -> str:
        """Return its name, without the key exchange."""
        if self.kind == CHACHA:
            return self.kind
        return f"AES-{8 * self.key}-{self.kind}" + (f"-{self.mac.upper()}" if self.mac else "")


class KeyBasis(NamedTuple):
    """The inputs of keys up to TLS 1.2, beside the secret."""

    version: int
    randoms: bytes  #: the server's, then the client's
    server: bool  #: the keys are the server's
    etm: bool  #: the MAC is outside the encryption


def _table() -> dict[int, Suite]:
    suites = [
        Suite(0x1301, GCM, 16, "sha256"),
        Suite(0x1302, GCM, 32, "sha384"),
        Suite(0x1303, CHACHA, 32, "sha256"),
        Suite(0x1304, CCM, 16, "sha256"),
        Suite(0x1305, CCM_8, 16, "sha256"),
    ]
    for first in (*range(0x9C, 0xAE, 2), 0xC02B, 0xC02D, 0xC02F, 0xC031, 0xD001):
        suites += [Suite(first, GCM, 16, "sha256"), Suite(first + 1, GCM, 32, "sha384")]
    for first in (0xC09C, 0xC09E, 0xC0A4, 0xC0A6, 0xC0AC):
        suites += [Suite(first, CCM, 16, "sha256"), Suite(first + 1, CCM, 32, "sha256")]
    for first in (0xC0A0, 0xC0A2, 0xC0A8, 0xC0AA, 0xC0AE):
        suites += [Suite(first, CCM_8, 16, "sha256"), Suite(first + 1, CCM_8, 32, "sha256")]
    suites += [Suite(0xD003, CCM_8, 16, "sha256"), Suite(0xD005, CCM, 16, "sha256")]
    suites += [Suite(number, CHACHA, 32, "sha256") for number in range(0xCCA8, 0xCCAF)]
    for numbers, key, digest, mac in (
        ((*range(0x2F, 0x35), 0x8C, 0x90, 0x94, 0xC004, 0xC009, 0xC00E, 0xC013, 0xC018), 16, "sha256", "sha1"),
        ((*range(0x35, 0x3B), 0x8D, 0x91, 0x95, 0xC005, 0xC00A, 0xC00F, 0xC014, 0xC019), 32, "sha256", "sha1"),
        ((0x3C, 0x3E, 0x3F, 0x40, 0x67, 0x6C, 0xAE, 0xC023, 0xC025, 0xC027, 0xC029), 16, "sha256", "sha256"),
        ((0x3D, 0x68, 0x69, 0x6A, 0x6B, 0x6D), 32, "sha256", "sha256"),
        ((0xAF, 0xC024, 0xC026, 0xC028, 0xC02A), 32, "sha384", "sha384"),
    ):
        suites += [Suite(number, CBC, key, digest, mac) for number in numbers]
    return {suite.number: suite for suite in suites}


SUITES: Final = _table()
#: The suites that a TLS 1.3 connection without hellos may have, by the length of its secrets.
BY_LENGTH: Final = {32: (SUITES[0x1301], SUITES[0x1303], SUITES[0x1304], SUITES[0x1305]), 48: (SUITES[0x1302],)}

#: Ciphers that are not supported, by the numbers of their suites.
_OTHERS: Final = (
    ("no encryption", (0x00, 0x01, 0x02, 0x3B, 0xB0, 0xB1, 0xC001, 0xC006, 0xC00B, 0xC010, 0xC015)),
    ("RC4", (0x04, 0x05, 0x18, 0x8A, 0x8E, 0x92, 0xC002, 0xC007, 0xC00C, 0xC011, 0xC016)),
    ("3DES", (0x0A, 0x0D, 0x10, 0x13, 0x16, 0x1B, 0x8B, 0x8F, 0x93, 0xC003, 0xC008, 0xC00D, 0xC012, 0xC017)),
    ("Camellia", (*range(0x41, 0x47), *range(0x84, 0x8A), *range(0xBA, 0xC6), *range(0xC072, 0xC09C))),
    ("SEED", range(0x96, 0x9C)),
    ("ARIA", range(0xC03C, 0xC072)),
    ("SM4", (0xC6, 0xC7)),
)


def name_of(number: int) -> str:
    """Return the name of a cipher suite, or its number if it is not listed."""
    if number in SUITES:
        return SUITES[number].name
    return next((name for name, numbers in _OTHERS if number in numbers), f"cipher suite 0x{number:04x}")
