package terminal

import (
	"bytes"
	"slices"
	"strconv"
)

// modes follows what a program turns on in a terminal, so that who leaves in the middle of an editor gets their own
// terminal back as it was: the other screen, the mouse, the hidden cursor.
type modes struct {
	on    map[int]bool // private modes that differ from how a terminal begins
	begun []byte       // of a sequence that a read cut
}

// longest is how much of a sequence is waited for; what is longer is none of ours.
const longest = 64

// cursorShown is the one mode here that is on when a terminal begins.
const cursorShown = 25

// undone are the modes that are put back: of keys, the mouse, the cursor, the screen and pasting.
func undone() []int {
	return []int{1, 9, cursorShown, 47, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004}
}

// see reads what a program prints.
func (m *modes) see(b []byte) {
	if len(m.begun) > 0 {
		b = append(m.begun, b...)
		m.begun = nil
	}
	for {
		at := bytes.IndexByte(b, '\x1b')
		if at < 0 {
			return
		}
		b = b[at:]
		end := 1
		for intro := []byte("\x1b[?"); end < len(b) && (end < len(intro) && b[end] == intro[end] || end >= len(intro) && (b[end] == ';' || b[end] >= '0' && b[end] <= '9')); {
			end++
		}
		switch {
		case end == len(b) && end < longest:
			m.begun = append([]byte(nil), b...)
			return
		case end == len(b):
			return
		case end > 3 && (b[end] == 'h' || b[end] == 'l'):
			m.set(b[3:end], b[end] == 'h')
		}
		b = b[end:]
	}
}

func (m *modes) set(numbers []byte, on bool) {
	for number := range bytes.SplitSeq(numbers, []byte{';'}) {
		n, err := strconv.Atoi(string(number))
		if err != nil || !slices.Contains(undone(), n) {
			continue
		}
		if m.on == nil {
			m.on = map[int]bool{}
		}
		if on == (n == cursorShown) {
			delete(m.on, n)
		} else {
			m.on[n] = true
		}
	}
}

// undo is what to print to have it as it was.
func (m *modes) undo() []byte {
	if len(m.on) == 0 {
		return nil
	}
	out := []byte("\x1b[0m")
	for _, n := range undone() {
		if m.on[n] {
			end := byte('l')
			if n == cursorShown {
				end = 'h'
			}
			out = append(strconv.AppendInt(append(out, "\x1b[?"...), int64(n), 10), end)
		}
	}
	m.on = nil
	return out
}
