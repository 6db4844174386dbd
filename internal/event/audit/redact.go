package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"sync"
)

// redactDetail returns details with hashes in place of the names of files.
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

// namesFile reports whether a detail of that name is a file's.
func namesFile(name string) bool {
	for _, word := range []string{"path", "file", "dir", "folder", "target"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// fileName finds what may be the name of a file: whatever is quoted, and words with a slash.
var fileName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*'|`[^`]*`|[^\\s\"'`]*/[^\\s\"'`]*")
})

// redactMessage puts hashes in place of what may be the name of a file.
func redactMessage(message string) string {
	return fileName().ReplaceAllStringFunc(message, func(word string) string {
		if quote := word[:1]; strings.Contains("\"'`", quote) {
			return quote + hash(word[1:len(word)-1]) + quote
		}
		return hash(word)
	})
}

// hash stands for a name: equal names have equal ones.
func hash(name string) string {
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(name))
	return "sha256:" + hex.EncodeToString(sum[:16])
}
