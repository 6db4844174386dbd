package api

import "unicode/utf8"

// Unfinished returns how many bytes at the end of b are an incomplete character.
func Unfinished(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
