package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// WriteJSON responds with v as JSON, without HTML escapes.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // fails only if the client is gone
}

// TakesGzip reports whether an Accept-Encoding header names gzip, and not with q=0.
func TakesGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, parameter, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, weighted := strings.CutPrefix(strings.ReplaceAll(parameter, " ", ""), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !weighted || err == nil && weight > 0
	}
	return false
}
