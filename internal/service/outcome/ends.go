package outcome

import "slices"

// How much of each stream is searched for a failure.
const (
	failureHead = 64 << 10
	failureTail = 1<<20 - 1
)

// Ends keeps the beginning and the end of a stream, which may have the reason of a failure. The zero value is empty.
type Ends struct {
	head, tail []byte
	lost       bool // the bytes between were dropped
}

// Add appends a piece of the stream.
func (e *Ends) Add(b []byte) {
	if n := min(len(b), failureHead-len(e.head)); n > 0 {
		e.head, b = append(e.head, b[:n]...), b[n:]
	}
	if e.tail = append(e.tail, b...); len(e.tail) > 2*failureTail {
		e.shorten()
	}
}

func (e *Ends) shorten() {
	if n := len(e.tail) - failureTail; n > 0 {
		e.tail, e.lost = slices.Delete(e.tail, 0, n), true
	}
}

// String returns the text, with a line break in place of dropped bytes.
func (e *Ends) String() string {
	if e.shorten(); e.lost {
		return string(e.head) + "\n" + string(e.tail)
	}
	return string(e.head) + string(e.tail)
}
