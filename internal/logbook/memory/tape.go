package memory

import (
	"encoding/binary"

	"github.com/belljar/belljar"
)

// Sizes of a tape's segments, in bytes: they grow, so that a short log is small and a long one has few.
const (
	firstSegment = 1 << 10
	lastSegment  = 256 << 10
)

// kind is a frame's type on the tape.
type kind byte

const (
	kindNote kind = iota // stored in Log.notes
	kindStdout
	kindStderr
	kindBuild // output of a compiler
	kindResult
)

func kindOf(f *belljar.Frame) kind {
	switch {
	case f.Type == belljar.FrameStdout:
		return kindStdout
	case f.Type == belljar.FrameStderr && f.Step == belljar.StepBuild:
		return kindBuild
	case f.Type == belljar.FrameStderr:
		return kindStderr
	case f.Type == belljar.FrameResult:
		return kindResult
	}
	return kindNote
}

// frame returns output on the tape as a frame. It is not for notes.
func (k kind) frame(seq uint64, output []byte) belljar.Frame {
	switch k {
	case kindBuild:
		return belljar.Frame{Seq: seq, Type: belljar.FrameStderr, Step: belljar.StepBuild, Output: output}
	case kindResult:
		return belljar.Frame{Seq: seq, Type: belljar.FrameResult, Output: output}
	case kindStderr:
		return belljar.Frame{Seq: seq, Type: belljar.FrameStderr, Output: output}
	}
	return belljar.Frame{Seq: seq, Type: belljar.FrameStdout, Output: output}
}

// tape holds records of a kind, a length and the bytes. Records never move or change, so the results of get stay valid.
type tape struct {
	segments [][]byte
}

// position is the start of a record. The end of a segment means the first record of the next.
type position struct{ segment, offset int }

// put adds a record with a copy of b and returns its position.
func (t *tape) put(k kind, b []byte) position {
	if k == kindNote {
		b = nil
	}
	need := 1 + binary.MaxVarintLen64 + len(b)
	last := len(t.segments) - 1
	if last < 0 || cap(t.segments[last])-len(t.segments[last]) < need {
		size := firstSegment
		if last >= 0 {
			size = min(2*cap(t.segments[last]), lastSegment)
		}
		t.segments = append(t.segments, make([]byte, 0, max(size, need)))
		last++
	}
	at := position{last, len(t.segments[last])}
	s := append(t.segments[last], byte(k))
	s = binary.AppendUvarint(s, uint64(len(b)))
	t.segments[last] = append(s, b...)
	return at
}

// get returns the record at at, which must exist, and the position after it.
func (t *tape) get(at position) (kind, []byte, position) {
	if at.offset == len(t.segments[at.segment]) {
		at = position{at.segment + 1, 0}
	}
	s := t.segments[at.segment]
	k := kind(s[at.offset])
	size, n := binary.Uvarint(s[at.offset+1:])
	begin := at.offset + 1 + n
	end := begin + int(size)
	if size == 0 {
		return k, nil, position{at.segment, end}
	}
	return k, s[begin:end:end], position{at.segment, end}
}
