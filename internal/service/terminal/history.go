package terminal

import (
	"bytes"
	"unicode/utf8"
)

// cutWithin is how far into a truncated history text looks for a suitable beginning.
const cutWithin = 8 << 10

// history is the latest output of a terminal. It grows with the output.
type history struct {
	most  int
	bytes []byte
	next  int  // position of the next byte once bytes has its full length
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

// text returns a copy of the history. A truncated history starts at the beginning of a line, or else of an escape sequence or a
// character, so that the terminal shows no fragments.
func (h *history) text() []byte {
	all := make([]byte, 0, len(h.bytes))
	all = append(append(all, h.bytes[h.next:]...), h.bytes[:h.next]...)
	if !h.lost {
		return all
	}
	return fromStart(all)
}

// fromStart returns b from its first beginning of a line on, or else of an escape sequence or a character.
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

// opening drops output of a recovered terminal until a line begins, because earlier output was lost. Viewers may attach before that
// output arrives. The zero value drops nothing.
type opening struct {
	within int // how far to look for a line's beginning; 0 after it was found
	held   []byte
}

// pass returns the part of b to deliver.
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
