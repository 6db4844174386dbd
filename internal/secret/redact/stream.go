package redact

// hint is the length from which an incomplete pattern is redacted.
const hint = 6

// Stream redacts one stream. The zero value and nil change nothing.
type Stream struct {
	patterns *Patterns
	held     []byte // the last bytes of the input, unchanged, which may begin a pattern
	passed   int    // how many of the held bytes were returned
	stars    int    // how many of the held bytes belong to a complete pattern that began earlier
}

// Stream returns a new stream.
func (p *Patterns) Stream() *Stream { return &Stream{patterns: p} }

// Write accepts bytes, which it may modify, and returns the redacted bytes that may be passed on: all bytes so far, except a final
// part that may begin a secret. The result is valid until the next call.
func (s *Stream) Write(b []byte) []byte {
	if s == nil || s.patterns == nil || len(b) == 0 {
		return b
	}
	if len(s.held) > 0 {
		b = append(s.held[:len(s.held):len(s.held)], b...)
	}
	found, keep := s.patterns.find(b), s.patterns.beginning(b)
	held := append([]byte(nil), b[keep:]...)
	end := s.stars
	star(b[:min(s.stars, len(b))])
	for _, f := range found {
		star(b[f.from:f.to])
		if f.from < keep { // a pattern that begins in the held bytes is found again
			end = max(end, f.to)
		}
	}
	out := b[min(s.passed, keep):keep:keep]
	s.held, s.passed, s.stars = held, max(0, s.passed-keep), max(0, end-keep)
	return out
}

// Held returns how many bytes were accepted and not returned yet.
func (s *Stream) Held() int {
	if s == nil {
		return 0
	}
	return len(s.held) - s.passed
}

// Flush returns the held bytes, redacted if they are a substantial part of a secret. If the rest of a secret follows, it is still
// redacted.
func (s *Stream) Flush() []byte {
	if s.Held() == 0 {
		return nil
	}
	out := append([]byte(nil), s.held...)
	star(out[:min(s.stars, len(out))]) // after a rewind, fewer may be held
	if len(out) >= hint {
		star(out)
	}
	out = out[s.passed:]
	s.passed = len(s.held)
	return out
}

// Rewind discards the held bytes, because they will be written again. So will the last again bytes that were returned.
func (s *Stream) Rewind(again int) {
	switch {
	case s == nil:
	case again > 0: // none of them is redacted, so no secret continues after them
		s.held, s.passed, s.stars = nil, 0, 0
	default:
		s.held = s.held[:s.passed]
	}
}

func star(b []byte) {
	for i := range b {
		b[i] = '*'
	}
}
