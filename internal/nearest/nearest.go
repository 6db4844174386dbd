// Package nearest finds the known name that a mistyped name may stand for.
package nearest

import "strings"

// Of returns the known name that is most like name, for a "did you mean": one is short for the other, or at most within
// letters must be added, dropped or changed; "" for none, and for a name of less than 2 letters or more than 64. The right limit
// depends on how similar the known names are.
func Of(name string, within int, known []string) string {
	if len(name) < 2 || len(name) > 64 {
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

// distance returns the number of bytes that must be added, dropped or changed to turn a into b.
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
