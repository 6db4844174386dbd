package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// redactDetail returns details with hashes in place of file names.
func redactDetail(detail map[string]string) map[string]string {
	if detail == nil {
		return nil
	}
	redacted := make(map[string]string, len(detail))
	for name, value := range detail {
		switch {
		case namesFile(name):
			value = hash(value)
		default:
			value = redactMessage(value)
		}
		redacted[name] = value
	}
	return redacted
}

// namesFile reports whether the detail with that name is a file name.
func namesFile(name string) bool {
	words := []string{"path", "file", "dir", "folder", "target"}
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) })
}

// fileName matches possible file names: quoted texts, and words with a slash.
var fileName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*'|`[^`]*`|[^\\s\"'`]*/[^\\s\"'`]*")
})

// redactMessage replaces possible file names with hashes.
func redactMessage(message string) string {
	return fileName().ReplaceAllStringFunc(message, func(word string) string {
		if quote := word[:1]; strings.Contains("\"'`", quote) {
			return quote + hash(word[1:len(word)-1]) + quote
		}
		return hash(word)
	})
}

// hash returns a stable hash of a name.
func hash(name string) string {
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(name))
	return "sha256:" + hex.EncodeToString(sum[:16])
}
