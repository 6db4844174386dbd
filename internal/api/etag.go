package api

import "strings"

// Matches reports whether an If-None-Match header names tag, or its compressed form.
func Matches(header, tag string) bool {
	if strings.TrimSpace(header) == "*" {
		return true
	}
	for given := range strings.SplitSeq(header, ",") {
		given = strings.TrimPrefix(strings.TrimSpace(given), "W/")
		if given == tag || given == strings.TrimSuffix(tag, `"`)+`-gzip"` {
			return true
		}
	}
	return false
}
