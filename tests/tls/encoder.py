"""Scripts of TLS connections, written by an encoder of its own: no key exchange, since the log has what it makes.

Keys are derived as the package derives them, which test_vectors holds against what others published.
"""

import hashlib
import hmac
from collections.abc import Callable
from itertools import pairwise

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from dcpdump.tls.openers import expand_label, prf

CLIENT, SERVER = 0, 1
ALERT, HANDSHAKE, DATA = 21, 22, 23
RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

#: number → kind, key bytes, hash, hash of the MAC
KINDS: dict[int, tuple[str, int, str, str]] = {
    0x1301: ("gcm", 16, "sha256", ""),
    0x1302: ("gcm", 32, "sha384", ""),
    0x1303: ("chacha", 32, "sha256", ""),
    0x1304: ("ccm", 16, "sha256", ""),
    0x1305: ("ccm8", 16, "sha256", ""),
    0xC02F: ("gcm", 16, "sha256", ""),
    0xC030: ("gcm", 32, "sha384", ""),
    0xCCA8: ("chacha", 32, "sha256", ""),
    0xC09C: ("ccm", 16, "sha256", ""),
    0xC0A1: ("ccm8", 32, "sha256", ""),
    0xC013: ("cbc", 16, "sha256", "sha1"),
    0xC014: ("cbc", 32, "sha256", "sha1"),
    0xC027: ("cbc", 16, "sha256", "sha256"),
    0xC028: ("cbc", 32, "sha384", "sha384"),
}


def made(*parts: object, size: int = 32) -> bytes:
    """Make bytes that look random, and are the same each time."""
    return hashlib.shake_128(repr(parts).encode()).digest(size)


class Sealer:
    """Seals the records of one direction under one key."""

    def __init__(self, version: int, suite: int, key: bytes, iv: bytes, mac: bytes = b"", *, etm: bool = False) -> None:
        self.version, self.kind, self.key, self.iv, self.mac, self.etm = version, KINDS[suite][0], key, iv, mac, etm
        self.mac_hash = KINDS[suite][3]
        self.number = 0

    def seal(self, kind: int, text: bytes, padding: int = 0) -> bytes:
        """Make a record."""
        number, self.number = self.number, self.number + 1
        if self.kind == "cbc":
            return self._cbc(number, kind, text)
        counter = (int.from_bytes(self.iv.ljust(12, b"\0"), "big") ^ number).to_bytes(12, "big")
        if self.version == 0x0304:
            inner = text + bytes([kind]) + bytes(padding)
            head = b"\x17\x03\x03" + (len(inner) + (8 if self.kind == "ccm8" else 16)).to_bytes(2, "big")
            return head + self._aead(counter, inner, head)
        explicit = b"" if self.kind == "chacha" else (number + 0x1122334455667788).to_bytes(8, "big")
        nonce = counter if self.kind == "chacha" else self.iv + explicit
        head = bytes([kind]) + self.version.to_bytes(2, "big")
        body = explicit + self._aead(nonce, text, number.to_bytes(8, "big") + head + len(text).to_bytes(2, "big"))
        return head + len(body).to_bytes(2, "big") + body

    def _aead(self, nonce: bytes, text: bytes, seal: bytes) -> bytes:
        if self.kind == "gcm":
            cipher = AESGCM(self.key)
        elif self.kind == "chacha":
            cipher = ChaCha20Poly1305(self.key)
        else:
            cipher = AESCCM(self.key, 8 if self.kind == "ccm8" else 16)
        sealed: bytes = cipher.encrypt(nonce, text, seal)
        return sealed

    def _cbc(self, number: int, kind: int, text: bytes) -> bytes:
        head = bytes([kind]) + self.version.to_bytes(2, "big")

        def mac(data: bytes) -> bytes:
            seal = number.to_bytes(8, "big") + head + len(data).to_bytes(2, "big")
            return hmac.new(self.mac, seal + data, self.mac_hash).digest()

        iv = self.iv if self.version == 0x0301 else made("iv", number, self.key, size=16)
        plain = text if self.etm else text + mac(text)
        fill = 15 - len(plain) % 16 + 16 * (number % 3)
        plain += bytes([fill]) * (fill + 1)
        sealed = Cipher(algorithms.AES(self.key), modes.CBC(iv)).encryptor().update(plain)
        if self.version == 0x0301:
            self.iv = sealed[-16:]
        else:
            sealed = iv + sealed
        if self.etm:
            sealed += mac(sealed)
        out: bytes = head + len(sealed).to_bytes(2, "big") + sealed
        return out


def message(kind: int, body: bytes) -> bytes:
    """Make a message of a handshake."""
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def extension(kind: int, body: bytes) -> bytes:
    """Make an extension of a hello."""
    return kind.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body


class Script:
    """One connection: ``flights`` are its bytes, ``texts`` what each side said, ``lines`` the lines of the key log."""

    def __init__(self, version: int = 0x0304, suite: int = 0x1301, name: str = "one", *, etm: bool = False) -> None:
        self.version, self.suite, self.name, self.etm = version, suite, name, etm
        self.flights: list[tuple[int, bytes]] = []
        self.texts = [b"", b""]
        self.lines: list[bytes] = []
        self.master = b""
        self.random = made(name, "client")
        self.sealers: list[Sealer | None] = [None, None]
        self._secrets = [b"", b""]
        self.hash = KINDS[suite][2]

    @property
    def keylog(self) -> bytes:
        """The key log."""
        return b"".join(self.lines)

    def sent(self, direction: int) -> list[bytes]:
        """Return the records of a direction."""
        return [data for way, data in self.flights if way == direction]

    # -- hellos -----------------------------------------------------------------------------------------

    def plain(self, direction: int, kind: int, body: bytes) -> None:
        """Add a record in clear."""
        self.flights.append((direction, bytes([kind]) + b"\3\3" + len(body).to_bytes(2, "big") + body))

    def sealed(self, direction: int, kind: int, text: bytes, padding: int = 0) -> None:
        """Add a record under the key at hand; a hello of before any key in clear."""
        sealer = self.sealers[direction]
        if sealer is None:
            self.plain(direction, kind, text)
        else:
            self.flights.append((direction, sealer.seal(kind, text, padding)))

    def client_hello(self, *, session: bytes = b"", ticket: bytes = b"", early: bool = False) -> None:
        name = b"\0" + len(b"cb.example").to_bytes(2, "big") + b"cb.example"
        extensions = extension(0, len(name).to_bytes(2, "big") + name)
        extensions += extension(43, b"\2\3\4") if self.version == 0x0304 else extension(35, ticket)
        extensions += extension(42, b"") if early else b""
        body = b"\3\3" + self.random + bytes([len(session)]) + session
        body += b"\0\2" + self.suite.to_bytes(2, "big") + b"\1\0" + len(extensions).to_bytes(2, "big") + extensions
        self.sealed(CLIENT, HANDSHAKE, message(1, body))

    def server_hello(self, *, session: bytes = b"", random: bytes = b"") -> None:
        extensions = extension(43, b"\3\4") if self.version == 0x0304 else b""
        extensions += extension(22, b"") if self.etm else b""
        legacy = min(self.version, 0x0303).to_bytes(2, "big")
        body = legacy + (random or self.server_random) + bytes([len(session)]) + session + self.suite.to_bytes(2, "big")
        body += b"\0" + len(extensions).to_bytes(2, "big") + extensions
        self.sealed(SERVER, HANDSHAKE, message(2, body))

    @property
    def server_random(self) -> bytes:
        return made(self.random, "server")

    # -- TLS 1.3 ----------------------------------------------------------------------------------------

    def log(self, label: str, secret: bytes) -> None:
        """Add a line to the key log."""
        self.lines.append(f"{label} {self.random.hex()} {secret.hex()}\n".encode())

    def key(self, direction: int, label: str) -> None:
        """Continue under the key of a label."""
        secret = made(self.random, label, size=48 if self.hash == "sha384" else 32)
        self.log(label, secret)
        self._secrets[direction] = secret
        self._use(direction)

    def _use(self, direction: int) -> None:
        secret = self._secrets[direction]
        key = expand_label(secret, "key", KINDS[self.suite][1], self.hash)
        self.sealers[direction] = Sealer(0x0304, self.suite, key, expand_label(secret, "iv", 12, self.hash))

    def handshake13(
        self, *, early: bytes = b"", takes: bool = True, retry: bool = False, client_certificate: bool = False
    ) -> "Script":
        """Add a handshake of TLS 1.3."""
        self.client_hello(early=bool(early))
        if retry:
            self.server_hello(random=RETRY)
            self.plain(CLIENT, 20, b"\1")
            self.client_hello()
        if early:
            self.plain(CLIENT, 20, b"\1")
            self.key(CLIENT, "CLIENT_EARLY_TRAFFIC_SECRET")
            self.sealed(CLIENT, DATA, early)
            if takes:
                self.texts[CLIENT] += early
        self.server_hello()
        self.plain(SERVER, 20, b"\1")
        self.key(SERVER, "SERVER_HANDSHAKE_TRAFFIC_SECRET")
        accepted = extension(42, b"") if early and takes else b""
        self.sealed(SERVER, HANDSHAKE, message(8, len(accepted).to_bytes(2, "big") + accepted))
        certificate = message(11, made("certificate", size=900))
        self.sealed(SERVER, HANDSHAKE, certificate[:500])
        self.sealed(SERVER, HANDSHAKE, certificate[500:] + message(15, made("signature", size=70)))
        self.sealed(SERVER, HANDSHAKE, message(20, made("finished")))
        self.key(SERVER, "SERVER_TRAFFIC_SECRET_0")
        if early and takes:
            self.sealed(CLIENT, HANDSHAKE, message(5, b""))
        elif not early:
            self.plain(CLIENT, 20, b"\1")
        self.key(CLIENT, "CLIENT_HANDSHAKE_TRAFFIC_SECRET")
        if client_certificate:
            self.sealed(CLIENT, HANDSHAKE, message(11, made("mine", size=800)) + message(15, made("signed", size=70)))
        self.sealed(CLIENT, HANDSHAKE, message(20, made("finished")))
        self.key(CLIENT, "CLIENT_TRAFFIC_SECRET_0")
        self.sealed(SERVER, HANDSHAKE, message(4, made("ticket", size=200)))
        return self

    def key_update(self, direction: int) -> None:
        """Change the key of a direction."""
        self.sealed(direction, HANDSHAKE, message(24, b"\0"))
        secret = self._secrets[direction]
        self._secrets[direction] = expand_label(secret, "traffic upd", len(secret), self.hash)
        self._use(direction)

    def authenticate_late(self) -> None:
        """Add an authentication of the client behind the handshake, whose Finished changes nothing."""
        self.sealed(SERVER, HANDSHAKE, message(13, made("request", size=40)))
        self.sealed(CLIENT, HANDSHAKE, message(11, made("mine", size=800)) + message(20, made("finished")))

    # -- TLS 1.2 and before -----------------------------------------------------------------------------

    def handshake12(self, *, resumed: "Script | None" = None, ticket: bool = False, line: bool = True) -> "Script":
        """Add a handshake of TLS 1.2 or before; ``resumed``: with the master secret of another connection."""
        self.master = resumed.master if resumed else made(self.random, "master", size=48)
        session = made(resumed.random, "session") if resumed and not ticket else b""
        offered = made(resumed.random, "ticket", size=180) if resumed and ticket else b""
        self.client_hello(session=session, ticket=offered)
        if line:
            self.log("CLIENT_RANDOM", self.master)
        self.server_hello(session=session or made(self.random, "session"))
        if not resumed:
            self.sealed(SERVER, HANDSHAKE, message(11, made("certificate", size=900)))
            self.sealed(SERVER, HANDSHAKE, message(12, made("exchange", size=300)) + message(14, b""))
            self.sealed(CLIENT, HANDSHAKE, message(16, made("exchange", size=33)))
        keys = self._keys12()
        for direction in (SERVER, CLIENT) if resumed else (CLIENT, SERVER):
            if direction == SERVER:
                given = made(self.random, "ticket", size=180)
                self.sealed(SERVER, HANDSHAKE, message(4, bytes(4) + len(given).to_bytes(2, "big") + given))
            self.sealed(direction, 20, b"\1")
            self.sealers[direction] = keys[direction]
            self.sealed(direction, HANDSHAKE, message(20, made("finished", size=12)))
        return self

    def renegotiate(self) -> None:
        """Add another handshake inside the connection."""
        self.random = made(self.random, "again")
        self.handshake12()

    def _keys12(self) -> list[Sealer]:
        kind, size, digest, mac = KINDS[self.suite]
        macs = hashlib.new(mac).digest_size if mac else 0
        ivs = {"cbc": 16 if self.version == 0x0301 else 0, "chacha": 12}.get(kind, 4)
        seed = b"key expansion" + self.server_random + self.random
        block = prf(self.version, digest, self.master, seed, 2 * (macs + size + ivs))
        cuts = [0]
        for each in (macs, macs, size, size, ivs, ivs):
            cuts.append(cuts[-1] + each)
        parts = [block[start:stop] for start, stop in pairwise(cuts)]
        return [
            Sealer(self.version, self.suite, parts[2 + way], parts[4 + way], parts[way], etm=self.etm) for way in (0, 1)
        ]

    # -- text -------------------------------------------------------------------------------------------

    def handshake(self) -> "Script":
        """Add the handshake of the version."""
        return self.handshake13() if self.version == 0x0304 else self.handshake12()

    def say(self, direction: int, text: bytes, size: int = 16384, padding: int = 0) -> "Script":
        """Add text, in records of at most ``size`` bytes."""
        for at in range(0, len(text), size):
            self.sealed(direction, DATA, text[at : at + size], padding)
        self.texts[direction] += text
        return self

    def part(self) -> None:
        """Close both directions."""
        for direction in (CLIENT, SERVER):
            self.sealed(direction, ALERT, b"\1\0")


def connected(version: int = 0x0304, suite: int = 0x1301, name: str = "one", *, etm: bool = False) -> Script:
    """Make a connection behind its handshake."""
    return Script(version, suite, name, etm=etm).handshake()


# -- conversations of every kind ------------------------------------------------------------------------


def talked(script: Script) -> Script:
    """Have both sides say something."""
    script.say(CLIENT, made("ask", size=300)).say(SERVER, made("answer", size=9_000), size=700)
    return script.say(CLIENT, made("again", size=900), size=70)


def _empty() -> Script:
    script = talked(connected())
    script.sealed(SERVER, DATA, b"")
    script.sealed(SERVER, DATA, b"", padding=20)
    return talked(script)


def _updated() -> Script:
    script = talked(connected(suite=0x1302))
    for ways in ([SERVER], [SERVER, CLIENT], [SERVER]):
        for way in ways:
            script.key_update(way)
        talked(script)
    return script


def _late() -> Script:
    script = connected().say(SERVER, b"before")
    script.authenticate_late()
    return talked(script)


def _renegotiated(version: int, suite: int) -> Script:
    script = talked(connected(version, suite))
    for _ in range(2):
        script.renegotiate()
        talked(script)
    return script


CONVERSATIONS: dict[str, Callable[[], Script]] = {
    "1.3": lambda: talked(connected()),
    "1.3 ChaCha20": lambda: talked(connected(suite=0x1303)),
    "1.2 GCM": lambda: talked(connected(0x0303, 0xC02F)),
    "1.2 CBC": lambda: talked(connected(0x0303, 0xC014)),
    "1.0 CBC": lambda: talked(connected(0x0301, 0xC013)),
    "a MAC outside of what is encrypted, SHA-256": lambda: talked(connected(0x0303, 0xC027, etm=True)),
    "a MAC outside of what is encrypted, SHA-384": lambda: talked(connected(0x0303, 0xC028, etm=True)),
    "a MAC outside of what is encrypted, 1.1": lambda: talked(connected(0x0302, 0xC013, etm=True)),
    "a MAC outside of what is encrypted, 1.0": lambda: talked(connected(0x0301, 0xC014, etm=True)),
    "padded": lambda: talked(connected()).say(SERVER, made("padded", size=5_000), size=600, padding=77),
    "empty records": _empty,
    "keys updated again and again": _updated,
    "another hello is requested": lambda: talked(Script().handshake13(retry=True)),
    "a certificate of the client": lambda: talked(Script().handshake13(client_certificate=True)),
    "a later authentication, whose Finished changes no key": _late,
    "early text": lambda: talked(Script().handshake13(early=b"early text")),
    "early text that is refused": lambda: talked(Script().handshake13(early=b"early text", takes=False)),
    "handshakes inside": lambda: _renegotiated(0x0303, 0xC02F),
    "handshakes inside, CBC": lambda: _renegotiated(0x0302, 0xC013),
}
