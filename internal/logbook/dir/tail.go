package dir

import "slices"

// Sizes of the part of a log that stays in memory, in bytes.
const (
	firstSegment = 1 << 10
	lastSegment  = 256 << 10 // segments grow to this; a larger Append goes to the file only
	tailSize     = 256 << 10 // least size, if the log has that much
	smallTail    = 16 << 10  // a sealed log up to this size stays in memory while the book caches it
)

// segment is a part of the file in memory. It begins and ends with complete records. Bytes are written once, before the
// log's end moves past them, so readers need no lock for the bytes before the end.
type segment struct {
	base int64  // offset in the file
	buf  []byte // full capacity; the used part ends at the next segment's base or at the log's end
}

// tail is the end of a file in memory, in contiguous segments. It is immutable: a change makes a new tail.
type tail []segment

// room returns space for about need bytes after offset end. fresh reports whether it is a new segment.
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

// with returns the tail with one more segment and without those that a log that ends at end no longer needs.
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

// from returns one contiguous piece of the log from offset at on, for a log that ends at end; nil if the tail does not
// have it.
func (t tail) from(at, end int64) []byte {
	for i := len(t) - 1; i >= 0; i-- {
		if s := t[i]; s.base <= at {
			return s.buf[at-s.base : end-s.base]
		}
		end = t[i].base
	}
	return nil
}

// begins reports whether the tail begins at the start of the file.
func (t tail) begins() bool { return len(t) > 0 && t[0].base == 0 }
