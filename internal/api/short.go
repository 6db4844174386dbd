package api

import (
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// maxEcho is how much of a text an error tells, in bytes: what was wrong with a request may be megabytes of it.
const maxEcho = 1024

// short is e without what is too long of its texts.
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

// shorten is a text of at most maxEcho bytes and a mark that there was more.
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
