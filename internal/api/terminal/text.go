package terminal

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/belljar/belljar/internal/api"
)

// splitter makes messages from a stream of bytes. It holds an incomplete character back until the rest arrives.
type splitter struct{ held []byte }

// next returns the message for b; false if all of it is held.
func (s *splitter) next(kind string, b []byte) (text, bool) {
	if len(s.held) > 0 {
		b = append(s.held, b...)
		s.held = nil
	}
	if n := api.Unfinished(b); n > 0 {
		s.held = append([]byte(nil), b[len(b)-n:]...)
		b = b[:len(b)-n]
	}
	if len(b) == 0 {
		return text{}, false
	}
	return textOf(kind, b), true
}

// flush returns the held bytes as a message; false if there are none.
func (s *splitter) flush(kind string) (text, bool) {
	if len(s.held) == 0 {
		return text{}, false
	}
	b := s.held
	s.held = nil
	return textOf(kind, b), true
}

// textOf returns b as a message: text if it is UTF-8 and JSON escapes would not make it much longer, else base64.
func textOf(kind string, b []byte) text {
	if utf8.Valid(b) {
		escapes := 0
		for _, c := range b {
			if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
				escapes++
			}
		}
		if escapes <= len(b)/4+16 {
			return text{Type: kind, Data: string(b)}
		}
	}
	return text{Type: kind, Data: base64.StdEncoding.EncodeToString(b), Encoding: "base64"}
}
