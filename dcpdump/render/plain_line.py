"""Write plain frames as one line each."""

from dcpdump.escape import safe
from dcpdump.render import View, line
from dcpdump.render.field_texts import FieldTexts, side_by_side
from dcpdump.render.plain_rows import PlainField, PlainLayout, PlainRows
from dcpdump.render.plain_text import shown
from dcpdump.render.plain_writer import PlainWriter


class _Words(FieldTexts):
    """Fields side by side as words, each with a comma before it; those that say nothing are left out."""

    def __init__(self, message: str, slots: list[PlainField]) -> None:
        super().__init__(slots)
        self._message = message
        self._slots = slots
        self._begin = f", {line.field_name(message, slots[0].field)}=" if line.is_decimal(slots[0].field) else ""
        self._of_zero = line.word(message, slots[0].field, 0) != ""

    def made(self, frames: PlainRows) -> bytes:
        """Return the words of the frame that is loaded."""
        first = self._slots[0]
        number = frames.field(first)
        if self._begin and len(self._slots) == 1:
            return f"{self._begin}{number}".encode() if number or self._of_zero else b""
        words = [line.word(self._message, slot.field, frames.field(slot)) for slot in self._slots]
        return "".join([f", {word}" for word in words if word]).encode()


class _Sentence:
    """What frames of one layout have in common."""

    def __init__(self, layout: PlainLayout) -> None:
        message = layout.message
        self.begin = f" {line.sending_side(message, response=False)} {line.dialogue_name(message.name)}{{"
        self.has_vbucket = message.streamed or message.vbucket
        self.words = [_Words(message.name, slots) for slots in side_by_side(layout.slots)]


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
        begin = f"#{frames.number} {frames.time_text()} c{frames.places[frames.place].connection}{sentence.begin}"
        out.append(begin.encode())
        words = [f", vb={frames.vbucket}".encode() if sentence.has_vbucket else b""]
        if layout.framed:
            words.append(f", sid={frames.stream_id}".encode())
        for word in sentence.words:
            words.append(word.text(frames))
        if frames.collection >= 0:
            name = frames.collection_name()
            words.append(f", collection=0x{frames.collection:x}{f'({name})' if name else ''}".encode())
        if frames.key_end > frames.key_at:
            words.append(b", key=")
            words.append(shown(frames.key))
        if layout.has_value and frames.value_length:
            value = f"{frames.value_length} B".encode() if layout.document else shown(frames.value)
            words.append(b", value=" + value)
        out.append(b"".join(words)[2:])
        end = f"}} [after {frames.gap:,} bytes lost or skipped]" if frames.gap else "}"
        if frames.fault:
            end += f" ! {safe(frames.fault)}"
        out.append(f"{end}\n".encode())
