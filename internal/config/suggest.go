package config

import (
	"slices"
	"strings"

	"github.com/belljar/belljar/internal/nearest"
)

// suggest returns the name most similar to word, or the one that begins with it, or "".
func suggest(word string, names []string) string {
	if slices.Contains(names, word) { // the key is written as the variable, in capitals or with the prefix
		return word
	}
	best := nearest.Of(word, len(word)/3, names)
	for _, name := range names {
		if best == "" && len(word) > 3 && strings.HasPrefix(name, word) {
			best = name
		}
	}
	return best
}
