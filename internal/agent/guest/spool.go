//go:build linux

package guest

import "github.com/belljar/belljar/internal/agent/wire"

// Sizes of a spool's chunks. Small writes share one. A chunk's overhead counts as well, so that a program cannot exceed the
// spool's limit by writing single bytes to two streams in turn.
const (
	minChunk      = 128
	maxChunk      = wire.MaxData
	chunkOverhead = 64
)

// spool holds the output that the host has not acknowledged. Positions count kept bytes from the exec's start. It has no lock of
// its own.
type spool struct {
	chunks  []chunk
	first   int64 // position of the first byte that is held
	next    int64 // position after the last byte
	cost    int   // memory of the chunks in bytes
	limit   int64 // on next; 0 is none
	dropped int64 // bytes beyond limit
}

// chunk is consecutive output of one stream. Its bytes never change once written.
type chunk struct {
	position int64
	stream   wire.Stream
	data     []byte
}

func (c chunk) end() int64 { return c.position + int64(len(c.data)) }

// room returns how many bytes may be added until the limit; it is negative above it.
func (s *spool) room() int { return wire.SpoolSize - s.cost }

// full reports whether the output's limit is reached: further output is dropped.
func (s *spool) full() bool { return s.limit > 0 && s.next >= s.limit }

// add keeps b, and counts the bytes above the output's limit.
func (s *spool) add(stream wire.Stream, b []byte) {
	if s.limit > 0 {
		if left := s.limit - s.next; int64(len(b)) > left {
			s.dropped += int64(len(b)) - left
			b = b[:left]
		}
	}
	for len(b) > 0 {
		size := minChunk
		if n := len(s.chunks); n > 0 && s.chunks[n-1].stream == stream {
			last := &s.chunks[n-1]
			fits := min(len(b), cap(last.data)-len(last.data))
			last.data = append(last.data, b[:fits]...)
			s.next += int64(fits)
			b = b[fits:]
			size = 2 * cap(last.data)
		}
		if len(b) == 0 {
			return
		}
		size = min(max(size, len(b)), maxChunk)
		s.chunks = append(s.chunks, chunk{position: s.next, stream: stream, data: make([]byte, 0, size)})
		s.cost += size + chunkOverhead
	}
}

// ack drops the output before position.
func (s *spool) ack(position int64) {
	if position <= s.first {
		return
	}
	s.first = position
	n := 0
	for n < len(s.chunks) && s.chunks[n].end() <= position {
		s.cost -= cap(s.chunks[n].data) + chunkOverhead
		s.chunks[n].data = nil
		n++
	}
	s.chunks = s.chunks[n:]
	if len(s.chunks) == 0 {
		s.chunks = nil
	}
}

// at returns output of one stream from position on; nothing if there is none yet.
func (s *spool) at(position int64) (wire.Stream, []byte) {
	low, high := 0, len(s.chunks)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if s.chunks[mid].end() <= position {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(s.chunks) {
		return 0, nil
	}
	c := s.chunks[low]
	return c.stream, c.data[position-c.position:]
}
