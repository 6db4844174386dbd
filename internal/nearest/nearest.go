// Package nearest finds the known name that a mistyped one may stand for.
package nearest

import "strings"

// Of returns the one of known that is most like name, for a "did you mean": one that is short for the other, or within so many
// letters added, dropped or changed; "" for none. How many are too many depends on how much the names are alike.
func Of(name string, within int, known []string) string {
	if len(name) > 64 {
		return ""
	}
	for _, k := range known {
		if abbreviates(name, k) || abbreviates(k, name) {
			return k
		}
	}
	best, least := "", within+1
	for _, k := range known {
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// abbreviates reports whether one name is short for another: its beginning, as timeout of timeout_sec, or some of its letters
// with the first and the last among them, as cmd of command.
func abbreviates(short, long string) bool {
	if len(short) < 3 || len(short) >= len(long) {
		return false
	}
	if strings.HasPrefix(long, short) {
		return true
	}
	at := 0
	for i := range len(long) {
		if at < len(short) && long[i] == short[at] {
			at++
		}
	}
	return at == len(short) && short[0] == long[0] && short[at-1] == long[len(long)-1]
}

// distance is how many bytes must be added, dropped or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
