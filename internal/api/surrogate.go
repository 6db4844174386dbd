package api

// LoneSurrogate reports whether JSON text escapes half a surrogate pair, which encoding/json would quietly replace.
func LoneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		unit, ok := escaped(raw[i:])
		if !ok {
			i++ // the escaped character may be a backslash
			continue
		}
		i += 5
		switch {
		case unit >= 0xdc00 && unit < 0xe000:
			return true
		case unit >= 0xd800 && unit < 0xdc00:
			low, ok := escaped(raw[i+1:])
			if !ok || low < 0xdc00 || low >= 0xe000 {
				return true
			}
			i += 6
		}
	}
	return false
}

// escaped reads \uXXXX.
func escaped(raw []byte) (unit rune, ok bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	for _, c := range raw[2:6] {
		unit <<= 4
		switch {
		case c >= '0' && c <= '9':
			unit |= rune(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			unit |= rune(c|0x20-'a') + 10
		default:
			return 0, false
		}
	}
	return unit, true
}
