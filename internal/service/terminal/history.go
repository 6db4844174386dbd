package terminal

import (
	"bytes"
	"unicode/utf8"
)

// cutWithin is how far into a truncated history text looks for a good place to begin.
const cutWithin = 8 << 10

// history is the latest output of a terminal. It grows with the output.
type history struct {
	most  int
	bytes []byte
	next  int  // where the next byte goes once bytes has its full length
	lost  bool // older output was dropped
}

// add adds output.
func (h *history) add(b []byte) {
	if more := len(b) - h.most; more > 0 {
		b = b[more:]
		h.lost = true
	}
	if n := min(h.most-len(h.bytes), len(b)); n > 0 {
		h.bytes = append(h.bytes, b[:n]...)
		b = b[n:]
	}
	for len(b) > 0 {
		h.lost = true
		n := copy(h.bytes[h.next:], b)
		h.next = (h.next + n) % h.most
		b = b[n:]
	}
}

// text returns a copy of the history. A truncated one begins at the beginning of a line, or else of an escape sequence or a
// character, so that nothing is shown by halves.
func (h *history) text() []byte {
	all := make([]byte, 0, len(h.bytes))
	all = append(append(all, h.bytes[h.next:]...), h.bytes[:h.next]...)
	if !h.lost {
		return all
	}
	head := all[:min(len(all), cutWithin)]
	if at := bytes.IndexByte(head, '\n'); at >= 0 {
		return all[at+1:]
	}
	if at := bytes.IndexByte(head, 0x1b); at >= 0 {
		return all[at:]
	}
	for i := range min(len(all), utf8.UTFMax) {
		if utf8.RuneStart(all[i]) {
			return all[i:]
		}
	}
	return all
}
