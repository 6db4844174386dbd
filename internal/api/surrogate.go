package api

// LoneSurrogate reports whether JSON text escapes half a surrogate pair, which encoding/json would silently replace.
func LoneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		switch surrogate(raw[i:]) {
		case half:
			return true
		case pair:
			i += 2*escapeLen - 1
		default:
			i++ // the escaped character may be a backslash
		}
	}
	return false
}

// escapeLen is the length of \uXXXX.
const escapeLen = 6

type surrogacy int

const (
	plain surrogacy = iota // no surrogate
	pair                   // two escapes for one rune
	half                   // a lone surrogate
)

// surrogate classifies the escape that b begins with.
func surrogate(b []byte) surrogacy {
	first, ok := escaped(b)
	if !ok || first < 0xd800 || first > 0xdfff {
		return plain
	}
	if first >= 0xdc00 || len(b) < escapeLen {
		return half
	}
	if second, ok := escaped(b[escapeLen:]); ok && second >= 0xdc00 && second <= 0xdfff {
		return pair
	}
	return half
}

// escaped parses \uXXXX.
func escaped(b []byte) (rune, bool) {
	if len(b) < escapeLen || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:escapeLen] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
