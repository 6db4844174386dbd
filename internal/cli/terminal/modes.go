package terminal

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// modes tracks the terminal modes that a program turns on (alternate screen, mouse, hidden cursor, keyboard), so that detaching from an
// editor restores the user's own terminal.
type modes struct {
	on        map[int]bool // private modes that differ from their defaults
	keypad    bool         // application keypad
	otherKeys bool         // xterm's modifyOtherKeys
	kitty     [2]kitty     // the kitty keyboard protocol, of the main and the alternate screen
	begun     []byte       // a sequence that continues in the next read
}

// kitty is the state of one screen's kitty keyboard protocol.
type kitty struct {
	pushed int  // entries on its stack
	set    bool // flags without an entry
}

// longest is the maximum length of a buffered sequence; no tracked sequence is longer.
const longest = 64

// cursorShown is the only tracked mode that is on by default.
const cursorShown = 25

// mostPushed is the depth of the stack in terminals.
const mostPushed = 16

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
		end := 1 // of the escape, with [ and a marker the parameters
		if len(b) > 1 && b[1] == '[' {
			end = 2
			if len(b) > 2 && strings.IndexByte("?<=>", b[2]) >= 0 {
				for end = 3; end < len(b) && (b[end] == ';' || b[end] >= '0' && b[end] <= '9'); {
					end++
				}
			}
		}
		switch {
		case end == len(b) && end < longest:
			m.begun = append([]byte(nil), b...)
			return
		case end == len(b):
			return
		case end == 1 && (b[1] == '=' || b[1] == '>'):
			m.keypad = b[1] == '='
		case end > 2:
			m.sequence(b[2], string(b[3:end]), b[end])
		}
		b = b[end:]
	}
}

// sequence processes CSI, a marker, parameters and a final byte.
func (m *modes) sequence(marker byte, numbers string, final byte) {
	first, second, _ := strings.Cut(numbers, ";")
	keys := &m.kitty[0]
	if m.on[47] || m.on[1047] || m.on[1049] {
		keys = &m.kitty[1]
	}
	switch string([]byte{marker, final}) {
	case "?h", "?l":
		m.set(numbers, final == 'h')
	case ">m", ">n":
		if first == "4" || numbers == "" {
			m.otherKeys = final == 'm' && strings.Trim(second, "0;") != ""
		}
	case ">u":
		keys.pushed = min(keys.pushed+1, mostPushed)
	case "<u":
		count, err := strconv.Atoi(first)
		if err != nil {
			count = 1
		}
		if keys.pushed -= max(count, 1); keys.pushed < 0 {
			*keys = kitty{} // an empty stack clears the flags
		}
	case "=u":
		if keys.pushed == 0 { // else it changes the entry
			keys.set = strings.Trim(first, "0") != ""
		}
	}
}

func (m *modes) set(numbers string, on bool) {
	for number := range strings.SplitSeq(numbers, ";") {
		n, err := strconv.Atoi(number)
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
	out := m.kitty[1].undo() // while its screen is shown
	for _, n := range restorable() {
		if m.on[n] {
			end := byte('l')
			if n == cursorShown {
				end = 'h'
			}
			out = append(strconv.AppendInt(append(out, "\x1b[?"...), int64(n), 10), end)
		}
	}
	out = append(out, m.kitty[0].undo()...)
	if m.otherKeys {
		out = append(out, "\x1b[>4m"...)
	}
	if m.keypad {
		out = append(out, "\x1b>"...)
	}
	*m = modes{}
	if len(out) == 0 {
		return nil
	}
	return append([]byte("\x1b[0m"), out...)
}

func (k kitty) undo() (out []byte) {
	if k.pushed > 0 {
		out = fmt.Appendf(out, "\x1b[<%du", k.pushed)
	}
	if k.set {
		out = append(out, "\x1b[=0u"...)
	}
	return out
}
