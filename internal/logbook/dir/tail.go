package dir

import "slices"

// Sizes of what stays in memory of a growing log, in bytes.
const (
	firstSegment = 1 << 10
	lastSegment  = 256 << 10 // segments grow to this; a larger Append goes to the file only
	tailSize     = 256 << 10 // kept at least, where there is that much
	smallTail    = 16 << 10  // a sealed log that is no larger stays in memory while the book remembers it
)

// segment is a piece of the file in memory. Bytes are written once, before the log's end moves after them, so readers
// need no lock for those before the end. It begins and ends with whole records.
type segment struct {
	base int64  // offset in the file
	buf  []byte // all its room; the next segment's base or the log's end reports how much is used
}

// tail is the end of a file in memory: segments that follow each other. A tail that readers have seen is not changed
// but replaced.
type tail []segment

// room returns space after offset end for about need bytes, and whether it is a new segment's.
func (t tail) room(end int64, need int) (space []byte, fresh bool) {
	size := firstSegment
	if len(t) > 0 {
		last := t[len(t)-1]
		space = last.buf[end-last.base:]
		if len(space) >= need {
			return space, false
		}
		size = min(4*len(last.buf), lastSegment)
	}
	return make([]byte, max(size, need)), true
}

// with returns the tail with one more segment and without those that are not needed, when the log ends at end.
func (t tail) with(s segment, end int64) tail {
	keep := t
	for len(keep) > 0 {
		second := s.base
		if len(keep) > 1 {
			second = keep[1].base
		}
		if end-second < tailSize {
			break
		}
		keep = keep[1:]
	}
	return append(slices.Clip(keep), s)
}

// from returns what the tail has from offset at on, in one piece, of a log that ends at end; nil if it is not here.
func (t tail) from(at, end int64) []byte {
	for i := len(t) - 1; i >= 0; i-- {
		if s := t[i]; s.base <= at {
			return s.buf[at-s.base : end-s.base]
		}
		end = t[i].base
	}
	return nil
}

// begins reports whether the tail begins where the file does.
func (t tail) begins() bool { return len(t) > 0 && t[0].base == 0 }
