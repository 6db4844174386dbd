package char

// Values estimates how many values JSON has: it counts lists, objects and commas. Decoded, a value can take a hundred times its bytes.
func Values(raw []byte) int {
	n, quoted := 1, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}
