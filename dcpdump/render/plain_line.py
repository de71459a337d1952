"""Write plain frames as one line each."""

from typing import Final

from dcpdump.escape import safe
from dcpdump.render import View, line
from dcpdump.render.plain_layout import PlainField, PlainLayout
from dcpdump.render.plain_rows import PlainRows
from dcpdump.render.plain_text import shown_text
from dcpdump.render.plain_writer import PlainWriter

#: So many words of one field are kept: of flags and times, which are often the same.
_MOST_WORDS: Final = 1_024


class _Word:
    """A field as a word."""

    def __init__(self, message: str, slot: PlainField) -> None:
        self.slot = slot
        self._message = message
        self._decimal = line.is_decimal(slot.field)
        self._begin = f", {line.field_name(message, slot.field)}="
        self._of_zero = line.word(message, slot.field, 0) != ""
        self._known: dict[int, str] = {}

    def text(self, number: int) -> str:
        """Return it with a comma before it; empty where it says nothing."""
        if not number and not self._of_zero:
            return ""
        if self._decimal:
            return f"{self._begin}{number}"
        known = self._known.get(number)
        if known is None:
            if len(self._known) >= _MOST_WORDS:
                self._known.clear()
            known = self._known[number] = f", {line.word(self._message, self.slot.field, number)}"
        return known


class _Sentence:
    """What frames of one layout have in common."""

    def __init__(self, layout: PlainLayout) -> None:
        message = layout.message
        self.begin = f" {line.sending_side(message, response=False)} {line.dialogue_name(message.name)}{{"
        self.has_vbucket = message.streamed or message.vbucket
        self.words = [_Word(message.name, slot) for slot in layout.slots]


class PlainLine(PlainWriter):
    """Writes lines, in the notation of the specification's dialogues."""

    def __init__(self, view: View) -> None:
        self._sentences: dict[PlainLayout, _Sentence] = {}

    def write(self, frames: PlainRows, out: list[bytes]) -> None:
        """Append the line of the frame that is loaded."""
        layout = frames.layout
        sentence = self._sentences.get(layout)
        if sentence is None:
            sentence = self._sentences[layout] = _Sentence(layout)
        words = f", vb={frames.vbucket}" if sentence.has_vbucket else ""
        if layout.framed:
            words += f", sid={frames.stream_id}"
        for word in sentence.words:
            words += word.text(frames.field(word.slot))
        if frames.collection >= 0:
            name = frames.collection_name()
            words += f", collection=0x{frames.collection:x}"
            if name:
                words += f"({name})"
        if frames.key_end > frames.key_at:
            words += f", key={shown_text(frames.key)}"
        if layout.has_value and frames.value_length:
            words += f", value={frames.value_length} B" if layout.document else f", value={shown_text(frames.value)}"
        begin = f"#{frames.number} {frames.time_text()} c{frames.places[frames.place].connection}{sentence.begin}"
        end = f" [after {frames.gap:,} bytes lost or skipped]" if frames.gap else ""
        if frames.fault:
            end += f" ! {safe(frames.fault)}"
        out.append(f"{begin}{words[2:]}}}{end}\n".encode())
