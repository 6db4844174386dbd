package api

import (
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// maxEcho limits each text of an error, in bytes: an error may quote megabytes of the request.
const maxEcho = 1024

// short returns e with its long texts shortened.
func short(e *belljar.Error) *belljar.Error {
	c := *e
	c.Message, c.Hint = shorten(e.Message), shorten(e.Hint)
	if len(e.Details) > 0 {
		c.Details = make(map[string]any, len(e.Details))
		for name, value := range e.Details {
			if text, ok := value.(string); ok {
				value = shorten(text)
			}
			c.Details[name] = value
		}
	}
	return &c
}

// shorten returns text, cut to maxEcho bytes and "…" if it is longer.
func shorten(text string) string {
	if len(text) <= maxEcho {
		return text
	}
	at := maxEcho
	for at > maxEcho-utf8.UTFMax && !utf8.RuneStart(text[at]) {
		at--
	}
	return strings.ToValidUTF8(text[:at], "�") + "…"
}
