package terminal

import (
	"strings"

	"github.com/belljar/belljar/internal/cli/mistake"
)

// Keys is the key sequence that detaches from a terminal.
type Keys struct {
	typed []byte
	names string // as the user wrote them
}

// ParseKeys parses a list such as ctrl-p,ctrl-q: each key is a character, or ctrl- and a character.
func ParseKeys(text string) (Keys, error) {
	var keys []byte
	for name := range strings.SplitSeq(text, ",") {
		switch char, ctrl := strings.CutPrefix(name, "ctrl-"); {
		case ctrl && len(char) == 1 && strings.Contains("abcdefghijklmnopqrstuvwxyz@[\\]^_", char):
			keys = append(keys, strings.ToUpper(char)[0]-'@')
		case !ctrl && len(name) == 1:
			keys = append(keys, name[0])
		default:
			return Keys{}, mistake.New("keys look like ctrl-p,ctrl-q or ctrl-]", "--detach-keys %s: %q is not a key", text, name)
		}
	}
	return Keys{keys, text}, nil
}

// detacher looks for the detach sequence in the input.
type detacher struct {
	keys []byte
	seen int // number of keys matched at the end of the input
}

// filter returns the part of b to forward to the terminal, and whether the detach sequence is complete. It holds back a partial
// sequence until the next key.
func (d *detacher) filter(b []byte) (on []byte, left bool) {
	for _, key := range b {
		if key == d.keys[d.seen] {
			if d.seen++; d.seen == len(d.keys) {
				d.seen = 0
				return on, true
			}
			continue
		}
		on = append(on, d.keys[:d.seen]...)
		d.seen = 0
		if key == d.keys[0] {
			d.seen = 1
			if len(d.keys) == 1 {
				return on, true
			}
			continue
		}
		on = append(on, key)
	}
	return on, false
}
