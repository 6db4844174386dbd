//go:build linux

// Package spool holds output that the host has not acknowledged.
package spool

import "github.com/belljar/belljar/internal/agent/wire"

// Sizes of a spool's chunks. Small writes share one. A chunk's overhead counts as well, so that a program cannot exceed the
// spool's limit by writing single bytes to two streams in turn.
const (
	minChunk = 128
	MaxChunk = wire.MaxData
	Overhead = 64
	whole    = 4 << 10 // a write of this size is in one chunk: readers get lines in one piece
)

// Spool holds the output that the host has not acknowledged. Positions count kept bytes from the exec's start. It has no lock of
// its own.
type Spool struct {
	chunks  []chunk
	First   int64 // position of the first byte
	Next    int64 // position after the last byte
	cost    int   // memory of the chunks in bytes
	Limit   int64 // of Next; 0 is none
	Dropped int64 // bytes beyond the limit
}

// chunk is consecutive output of one stream. Its bytes never change once written.
type chunk struct {
	position int64
	stream   wire.Stream
	data     []byte
}

func (c chunk) end() int64 { return c.position + int64(len(c.data)) }

// Room returns how many bytes may be added until the limit; it is negative above it.
func (s *Spool) Room() int { return wire.SpoolSize - s.cost }

// Full reports whether the output's limit is reached: further output is dropped.
func (s *Spool) Full() bool { return s.Limit > 0 && s.Next >= s.Limit }

// Add keeps b, and counts the bytes above the output's limit.
func (s *Spool) Add(stream wire.Stream, b []byte) {
	if s.Limit > 0 {
		if left := s.Limit - s.Next; int64(len(b)) > left {
			s.Dropped += int64(len(b)) - left
			b = b[:left]
		}
	}
	for len(b) > 0 {
		size := minChunk
		if n := len(s.chunks); n > 0 && s.chunks[n-1].stream == stream {
			last := &s.chunks[n-1]
			fits := min(len(b), cap(last.data)-len(last.data))
			if fits < len(b) && len(b) <= whole {
				fits = 0
			}
			last.data = append(last.data, b[:fits]...)
			s.Next += int64(fits)
			b = b[fits:]
			size = 2 * cap(last.data)
		}
		if len(b) == 0 {
			return
		}
		size = min(max(size, len(b)), MaxChunk)
		s.chunks = append(s.chunks, chunk{position: s.Next, stream: stream, data: make([]byte, 0, size)})
		s.cost += size + Overhead
	}
}

// Ack drops the output before position.
func (s *Spool) Ack(position int64) {
	if position <= s.First {
		return
	}
	s.First = position
	n := 0
	for n < len(s.chunks) && s.chunks[n].end() <= position {
		s.cost -= cap(s.chunks[n].data) + Overhead
		s.chunks[n].data = nil
		n++
	}
	s.chunks = s.chunks[n:]
	if len(s.chunks) == 0 {
		s.chunks = nil
	}
}

// At returns output of one stream from position on; nothing if there is none yet.
func (s *Spool) At(position int64) (wire.Stream, []byte) {
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
