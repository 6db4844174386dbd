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
	return fromStart(all)
}

// fromStart is b from its first beginning of a line on, or else of an escape sequence or a character.
func fromStart(b []byte) []byte {
	head := b[:min(len(b), cutWithin)]
	if at := bytes.IndexByte(head, '\n'); at >= 0 {
		return b[at+1:]
	}
	if at := bytes.IndexByte(head, 0x1b); at >= 0 {
		return b[at:]
	}
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// opening drops the beginning of the output that a recovered terminal has lost a part of, until a line begins. Its viewers may attach
// before that output comes. The zero value drops nothing.
type opening struct {
	within int // how far a line's beginning is looked for; 0 once it was found
	held   []byte
}

// pass returns what to deliver when b comes.
func (o *opening) pass(b []byte) []byte {
	if o.within == 0 {
		return b
	}
	o.held = append(o.held, b...)
	if bytes.IndexByte(o.held, '\n') < 0 && len(o.held) < o.within {
		return nil
	}
	b = fromStart(o.held)
	*o = opening{}
	return b
}
