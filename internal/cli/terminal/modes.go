package terminal

import (
	"bytes"
	"slices"
	"strconv"
)

// modes tracks the terminal modes that a program turns on (alternate screen, mouse, hidden cursor), so that detaching from an
// editor restores the user's own terminal.
type modes struct {
	on    map[int]bool // private modes that differ from their defaults
	begun []byte       // a sequence that continues in the next read
}

// longest is the maximum length of a buffered sequence; no tracked sequence is longer.
const longest = 64

// cursorShown is the only tracked mode that is on by default.
const cursorShown = 25

// restorable lists the modes to restore: keys, mouse, cursor, screen and paste.
func restorable() []int {
	return []int{1, 9, cursorShown, 47, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004}
}

// see processes the program's output.
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
		if err != nil || !slices.Contains(restorable(), n) {
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

// undo returns the output that restores the terminal.
func (m *modes) undo() []byte {
	if len(m.on) == 0 {
		return nil
	}
	out := []byte("\x1b[0m")
	for _, n := range restorable() {
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
