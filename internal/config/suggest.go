package config

import "strings"

// nearest returns the name that word was probably meant to be, or "".
func nearest(word string, names []string) string {
	best, least := "", len(word)/3+1
	for _, name := range names {
		if d := edits(word, name); d < least {
			best, least = name, d
		}
	}
	for _, name := range names {
		if best == "" && len(word) > 3 && strings.HasPrefix(name, word) {
			best = name
		}
	}
	return best
}

// edits is how many letters must change to make b of a (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
