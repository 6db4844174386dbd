package terminal

import (
	"strings"

	"github.com/belljar/belljar/internal/cli/mistake"
)

// Keys are the keys that leave a terminal, typed one after the other.
type Keys struct {
	typed []byte
	names string // as they were given
}

// ParseKeys reads ctrl-p,ctrl-q: keys by their character, or as ctrl- and one.
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

// detacher looks for the keys that leave among those typed.
type detacher struct {
	keys []byte
	seen int // how many of them were the last ones typed
}

// filter returns what of b goes on to the terminal, and whether the keys that leave are complete. Those typed in part
// wait for the next key.
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
