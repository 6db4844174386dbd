package terminal

import (
	"bytes"
	"unicode/utf8"
)

// cutWithin is how far into a history that has lost its beginning a good place to begin is looked for.
const cutWithin = 8 << 10

// history is the last output of a terminal. It takes no memory for what was never printed.
type history struct {
	most  int
	bytes []byte
	next  int  // where the next byte goes once bytes is as long as it gets
	lost  bool // something was printed before
}

// add notes what was printed.
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

// text returns a copy of what is remembered. If it is not everything it begins at a line's beginning, or else at an
// escape sequence's or a character's, so that nothing is shown by halves.
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
