"""Pseudonyms: as long as what they stand for, the same for the same, others for others."""

from itertools import product

import pytest

from dcpdump.pseudonymize import Pseudonyms

SIGNS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@pytest.mark.parametrize("salt", [b"one", b"another"])
@pytest.mark.parametrize("size", [1, 2])
def test_no_two_short_texts_share_one(salt: bytes, size: int) -> None:
    words = Pseudonyms(salt)
    texts = [bytes(signs) for signs in product(SIGNS, repeat=size)]
    assert sorted(map(words.text, texts)) == sorted(texts)


def test_it_is_as_long_and_the_same_for_one_salt_alone() -> None:
    for text in (b"", b"k", b"user::1", b"user-00001", b"a key of many bytes"):
        assert len(Pseudonyms(b"one").text(text)) == len(text)
        assert Pseudonyms(b"one").text(text) == Pseudonyms(b"one").text(text)
    assert Pseudonyms(b"one").text(b"user-00001") != Pseudonyms(b"another").text(b"user-00001")


def test_it_holds_only_letters_digits_and_two_signs() -> None:
    assert not Pseudonyms(b"salt").text(bytes(range(256)) + b"plain").translate(None, SIGNS)


def test_neighbours_have_nothing_in_common() -> None:
    words = Pseudonyms(b"salt")
    found = [words.text(b"user-%05d" % number) for number in range(1_000)]
    assert len(set(found)) == 1_000
    assert len({text[:3] for text in found}) > 900
