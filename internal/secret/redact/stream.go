package redact

// hint is how long the beginning of a pattern is which is hidden although its end has not come.
const hint = 6

// Stream redacts one stream. The zero value and nil change nothing.
type Stream struct {
	patterns *Patterns
	held     []byte // the end of the input so far, as it came, which may be the beginning of a pattern
	passed   int    // how many of these bytes were returned
	stars    int    // how many of these belong to a complete pattern that began before
}

// Stream returns a stream at its beginning.
func (p *Patterns) Stream() *Stream { return &Stream{patterns: p} }

// Write takes bytes, which it may change, and returns those that may be passed on: all that came so far without an end that may be the
// beginning of a secret. They are valid until the next call.
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
		if f.from < keep { // one that begins in what is held is found again
			end = max(end, f.to)
		}
	}
	out := b[min(s.passed, keep):keep:keep]
	s.held, s.passed, s.stars = held, max(0, s.passed-keep), max(0, end-keep)
	return out
}

// Held is how many bytes have come and were not returned.
func (s *Stream) Held() int {
	if s == nil {
		return 0
	}
	return len(s.held) - s.passed
}

// Flush returns the bytes that are held back, hidden if they are a good part of a secret. If the rest of one follows, it is
// hidden all the same.
func (s *Stream) Flush() []byte {
	if s.Held() == 0 {
		return nil
	}
	out := append([]byte(nil), s.held...)
	star(out[:s.stars])
	if len(out) >= hint {
		star(out)
	}
	out = out[s.passed:]
	s.passed = len(s.held)
	return out
}

// Rewind forgets what is held back: it comes again. So do the last bytes that were returned, as many as again is.
func (s *Stream) Rewind(again int) {
	switch {
	case s == nil:
	case again > 0: // none of them is hidden, so no secret continues after them
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
