"""Text is measured by what it takes on a terminal, where a wide character takes two cells and a combining one none."""

from dcpdump.render.text_columns import cell_len, folded, padded


def test_wide_characters_take_two_cells_and_combining_ones_none() -> None:
    texts = ("key", "配信", "🚀", "cafe\u0301", "→…·", "")
    assert {text: cell_len(text) for text in texts} == {"key": 3, "配信": 4, "🚀": 2, "cafe\u0301": 4, "→…·": 3, "": 0}


def test_text_is_padded_to_cells() -> None:
    assert [padded("配信", 6), padded("配信", 6, right=True), padded("longer", 3)] == ["配信  ", "  配信", "longer"]


def test_text_is_folded_at_words_and_a_word_that_is_too_long_is_cut() -> None:
    assert folded("vb 7 of stream-end", 12, first="  ", rest="    ") == ["  vb 7 of", "    stream-e", "    nd"]
    assert folded("値段は五千円です ok", 8) == ["値段は五", "千円です", "ok"]
    assert folded("値段は", 5) == ["値段", "は"]


def test_a_word_that_is_too_long_stays_whole_where_it_may_be_pasted() -> None:
    assert folded("see a-long-word here", 6, cut=False) == ["see", "a-long-word", "here"]


def test_an_indent_wider_than_the_text_still_leaves_something_on_a_line() -> None:
    assert folded("abcdefg", 1, rest="  ") == ["abcd", "  ef", "  g"]
    assert folded("", 10) == []
