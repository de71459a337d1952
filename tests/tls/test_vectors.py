"""Known answers: of RFC 8448 for TLS 1.3, of the PRF, and of records that OpenSSL 3.0 made for TLS 1.0 to 1.2."""

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dcpdump.net.event import Bytes, End, Seen
from dcpdump.tls.openers import Opener13, expand_label, opener12, prf
from dcpdump.tls.suites import SUITES, KeyBasis
from dcpdump.tls.unsealer import Unsealer
from tests.tls.encoder import CLIENT, SERVER
from tests.tls.feeding import feed, secrets_of, texts

# RFC 8448, section 3: the secrets, what they make, and records under them.
RANDOM = "cb34ecb1e78163ba1c38c6dacb196a6dffa21a8d9912ec18a2ef6283024dece7"
CLIENT_HANDSHAKE = "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21"
CLIENT_TRAFFIC = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"
SERVER_TRAFFIC = "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643"
KEYS = [
    (CLIENT_HANDSHAKE, "dbfaa693d1762c5b666af5d950258d01", "5bd3c71b836e0b76bb73265f"),
    (CLIENT_TRAFFIC, "17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9"),
    (SERVER_TRAFFIC, "9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984"),
]
SAID = bytes(range(50))
CLIENT_DATA = (
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5"
    "b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4"
)
SERVER_DATA = (
    "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d"
    "90e6dffc602dcb501a59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d"
)
CLIENT_CLOSE = "1703030013c9872760655666b74d7ff1153efd6db6d0b0e3"
SERVER_CLOSE = "1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9"
FINISHED = (
    "170303003575ec4dc238cce60b298044a71e219c56cc77b0517fe9b93c7a4bfc44d87f38f8"
    "0338ac98fc46deb384bd1caeacab6867d726c40546"
)
SAYS_FINISHED = "14000020a8ec436d677634ae525ac1fcebe11a039ec17694fac6e98527b642f2edd5ce61"
RECORDS = [
    (CLIENT_HANDSHAKE, 0, FINISHED, 22, bytes.fromhex(SAYS_FINISHED)),
    (CLIENT_TRAFFIC, 0, CLIENT_DATA, 23, SAID),
    (CLIENT_TRAFFIC, 1, CLIENT_CLOSE, 21, b"\1\0"),
    (SERVER_TRAFFIC, 1, SERVER_DATA, 23, SAID),
    (SERVER_TRAFFIC, 2, SERVER_CLOSE, 21, b"\1\0"),
]


@pytest.mark.parametrize(("secret", "key", "iv"), KEYS)
def test_the_keys_of_rfc_8448_are_derived(secret: str, key: str, iv: str) -> None:
    taken = bytes.fromhex(secret)
    assert expand_label(taken, "key", 16, "sha256").hex() == key
    assert expand_label(taken, "iv", 12, "sha256").hex() == iv


@pytest.mark.parametrize(("secret", "number", "record", "kind", "text"), RECORDS)
def test_the_records_of_rfc_8448_open(secret: str, number: int, record: str, kind: int, text: bytes) -> None:
    data = bytes.fromhex(record)
    opener = Opener13(SUITES[0x1301], bytes.fromhex(secret))
    assert opener.open(number, data[:5], data[5:]) == (kind, text)
    assert opener.open(number + 1, data[:5], data[5:]) is None
    assert opener.open(number, data[:5], data[5:-1] + bytes((data[-1] ^ 1,))) is None


def test_the_conversation_of_rfc_8448_opens_when_it_is_joined_late() -> None:
    keylog = f"CLIENT_TRAFFIC_SECRET_0 {RANDOM} {CLIENT_TRAFFIC}\nSERVER_TRAFFIC_SECRET_0 {RANDOM} {SERVER_TRAFFIC}\n"
    unsealer = Unsealer(secrets_of(keylog.encode()), joined_late=True)
    events = []
    for way, records in ((CLIENT, (CLIENT_DATA, CLIENT_CLOSE)), (SERVER, (SERVER_DATA, SERVER_CLOSE))):
        data = bytes.fromhex("".join(records))
        events += unsealer.feed(way, Bytes(0, data, Seen(1, 1), joined_late=True))
        events += unsealer.feed(way, End(len(data), "fin", Seen(2, 2)))
    found = [(way, event.data) for way, event in events if isinstance(event, Bytes)]
    assert found == [(CLIENT, SAID), (SERVER, SAID)]


def test_the_prf_of_tls_1_2_gives_what_was_published_for_it() -> None:
    secret, seed = bytes.fromhex("9bbe436ba940f017b17652849a71db35"), bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c")
    assert prf(0x0303, "sha256", secret, b"test label" + seed, 100).hex() == (
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af"
        "0fa022f7077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701"
        "87347b66"
    )


@pytest.mark.parametrize("version", [0x0301, 0x0302])
def test_the_prf_of_tls_1_0_gives_what_was_published_for_it(version: int) -> None:
    assert prf(version, "", b"\xab" * 48, b"PRF Testvector" + b"\xcd" * 64, 104).hex() == (
        "d3d4d1e349b5d515044666d51de32bab258cb521b6b053463e354832fd976754443bcf9a296519bc289abcbc1187e4eb"
        "d31e602353776c408aafb74cbc85eff69255f9788faa184cbb957a9819d84a5d7eb006eb459d3ae8de9810454b8b2d8f"
        "1afbc655a8c9a013"
    )


# -- records that OpenSSL made ----------------------------------------------------------------------------------

SAYS = [b"askask again", b"the answer of the server"]


def cases(name: str) -> Iterator[Any]:
    """Yield connections of OpenSSL, a line each."""
    for line in Path(__file__).with_name("vectors").joinpath(name).read_text().splitlines():
        case = json.loads(line)
        yield pytest.param(case, id=f"{case.get('version', '')} {case['cipher']}{' etm' * case.get('etm', False)}")


@pytest.mark.parametrize("case", [*cases("openssl.ndjson")])
def test_records_of_openssl_open_with_the_master_secret(case: Any) -> None:
    suite, randoms = SUITES[case["suite"]], bytes.fromhex(case["server_random"] + case["client_random"])
    said = [b"", b""]
    openers = [
        opener12(suite, bytes.fromhex(case["master"]), KeyBasis(case["number"], randoms, server, case["etm"]))
        for server in (False, True)
    ]
    for line in case["records"]:
        way, number, kind, record = line.split()
        data, opener = bytes.fromhex(record), openers[int(way)]
        assert opener.open(int(number), data[:5], data[5:-1] + bytes((data[-1] ^ 1,))) is None
        assert opener.open(int(number) + 1, data[:5], data[5:]) is None
        found = opener.open(int(number), data[:5], data[5:])
        assert found is not None
        assert found[0] == int(kind)
        said[int(way)] += found[1] if found[0] == 23 else b""
    assert said == SAYS


@pytest.mark.parametrize("case", [*cases("changes.ndjson")])
def test_conversations_of_openssl_open_that_update_keys_or_begin_another_handshake(case: Any) -> None:
    flights = [(way, b64decode(data)) for way, data in case["flights"]]
    for size in (0, 100):
        unsealer = Unsealer(secrets_of("\n".join(case["keylog"]).encode()))
        assert texts(feed(unsealer, flights, size=size)) == [text.encode() for text in case["texts"]]
        assert (unsealer.account[2], unsealer.report().cause) == (0, "")
