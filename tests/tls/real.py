"""Real connections: two ends of Python's ssl (OpenSSL) in one process, and what went between them."""

import datetime
import ssl
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@cache
def certificate() -> Path:
    """Make a certificate of its own, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cb.example")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = Path(tempfile.mkdtemp()) / "cert.pem"
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return path


@dataclass
class Talk:
    """What was said: the bytes of each direction in their order, the texts, and the key log."""

    flights: list[tuple[int, bytes]] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=lambda: [b"", b""])
    keylog: bytes = b""
    suite: str = ""


class Pair:
    """A client and a server; several connections of one pair may resume one another."""

    def __init__(self, version: ssl.TLSVersion, ciphers: str = "", *, client_certificate: bool = False) -> None:
        self._log = Path(tempfile.mkdtemp()) / "keys.log"
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.client.check_hostname = False
        self.client.verify_mode = ssl.CERT_NONE
        self.client.keylog_filename = str(self._log)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(certificate())
        for context in (self.client, self.server):
            context.minimum_version = context.maximum_version = version
            if ciphers:
                context.set_ciphers(ciphers + ":@SECLEVEL=0")
        if client_certificate:
            self.client.load_cert_chain(certificate())
            self.server.load_verify_locations(certificate())
            self.server.verify_mode = ssl.CERT_REQUIRED
        self.session: ssl.SSLSession | None = None

    def talk(self, script: list[tuple[int, bytes]]) -> Talk:
        """Connect, say a script (direction, text), and part."""
        talk = Talk()
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        out = [ssl.MemoryBIO(), ssl.MemoryBIO()]
        ends = [
            self.client.wrap_bio(to_client, out[0], server_hostname="cb.example", session=self.session),
            self.server.wrap_bio(to_server, out[1], server_side=True),
        ]
        inputs = [to_client, to_server]

        def carry() -> bool:
            moved = False
            for direction in (0, 1):
                if data := out[direction].read():
                    talk.flights.append((direction, data))
                    inputs[1 - direction].write(data)
                    moved = True
            return moved

        done = [False, False]
        while not all(done):
            for direction in (0, 1):
                if not done[direction]:
                    with suppress(ssl.SSLWantReadError):
                        ends[direction].do_handshake()
                        done[direction] = True
            carry()
        cipher = ends[0].cipher()
        talk.suite = cipher[0] if cipher else ""
        for direction, text in script:
            ends[direction].write(text)
            talk.texts[direction] += text
            carry()
            got = b""
            while len(got) < len(text):
                got += ends[1 - direction].read(1 << 20)
            assert got == text
        self.session = ends[0].session
        for direction in (0, 1):
            with suppress(ssl.SSLWantReadError, ssl.SSLError):
                ends[direction].unwrap()
            carry()
        talk.keylog = self._log.read_bytes()
        return talk
