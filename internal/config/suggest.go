package config

import (
	"strings"

	"github.com/belljar/belljar/internal/nearest"
)

// suggest returns the name most similar to word, or the one that begins with it, or "".
func suggest(word string, names []string) string {
	best := nearest.Of(word, len(word)/3, names)
	for _, name := range names {
		if best == "" && len(word) > 3 && strings.HasPrefix(name, word) {
			best = name
		}
	}
	return best
}
