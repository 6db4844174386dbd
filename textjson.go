package belljar

import (
	"encoding/base64"
	"encoding/binary"
	"unicode/utf8"
)

// The envelope of output is encoded by hand: a run's output passes here once for every reader, and encoding/json would scan
// each byte three times. The result equals that of encoding/json byte for byte, which a fuzz test checks.

// appendOutput appends output as a JSON string after its encoding: as text, unless JSON's escapes would make the message too
// long, else as base64.
func appendOutput(dst, output []byte) []byte {
	mark := len(dst)
	if utf8.Valid(output) {
		dst = append(dst, `"encoding":"utf8","data":`...)
		if text, ok := appendText(dst, output, maxTextBytes); ok {
			return text
		}
	}
	dst = append(dst[:mark], `"encoding":"base64","data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, output)
	return append(dst, '"')
}

// appendText appends valid UTF-8 as a JSON string of at most most bytes. If the string is longer, it returns false and an
// unusable result.
func appendText(dst, text []byte, most int) ([]byte, bool) {
	const hex = "0123456789abcdef"
	most += len(dst)
	dst = append(dst, '"')
	for {
		n := literal(text)
		if len(dst)+n > most {
			return dst, false
		}
		dst = append(dst, text[:n]...)
		if text = text[n:]; len(text) == 0 {
			break
		}
		switch c := text[0]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case 0xe2: // U+2028 and U+2029, which older JavaScript parses as line ends
			if text[1] != 0x80 || text[2]&^1 != 0xa8 {
				dst = append(dst, text[:3]...)
			} else {
				dst = append(dst, '\\', 'u', '2', '0', '2', hex[text[2]&0xf])
			}
			text = text[2:]
		default: // control characters, and < > & for JSON that is embedded in pages
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
		text = text[1:]
	}
	dst = append(dst, '"')
	return dst, len(dst) <= most
}

// literal returns how many bytes at the beginning of valid UTF-8 need no escape in a JSON string. It may stop early at 0xe2.
func literal(text []byte) int {
	n := 0
	for ; len(text)-n >= 8; n += 8 {
		if special(binary.LittleEndian.Uint64(text[n:])) {
			break
		}
	}
	for ; n < len(text); n++ {
		switch c := text[n]; {
		case c < 0x20, c == '"', c == '\\', c == '<', c == '>', c == '&', c == 0xe2:
			return n
		}
	}
	return n
}

// special reports whether one of eight bytes needs a closer look: less than space, or one of " \ < > & and 0xe2. It checks
// all eight in one operation.
func special(x uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	zero := func(v uint64) uint64 { return (v - ones) &^ v } // sets the top bit of each byte of v that is 0
	found := (x - ones*0x20) &^ x                            // less than space
	found |= zero(x ^ ones*'"')
	found |= zero(x ^ ones*'\\')
	found |= zero((x &^ (ones * 2)) ^ ones*'<') // < and > differ in one bit
	found |= zero(x ^ ones*'&')
	found |= zero(x ^ ones*0xe2)
	return found&tops != 0
}
