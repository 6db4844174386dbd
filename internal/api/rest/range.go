package rest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/belljar/belljar/internal/api"
)

// span is the requested part of a file, in bytes.
type span struct{ start, length int64 }

// contentRange returns the Content-Range header.
func (s span) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", s.start, s.start+s.length-1, size)
}

// parseRange parses a Range header for a file of size bytes. nil means the whole file: the header is empty, or its unit
// is not bytes. The error is for a 416 response.
func parseRange(header string, size int64) (*span, error) {
	unit, set, found := strings.Cut(header, "=")
	if !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return nil, nil
	}
	if n := strings.Count(set, ",") + 1; n > 1 {
		e := api.Refuse("Range", "Multi-range not supported")
		e.Details["ranges"] = n
		return nil, e
	}
	first, last, dashed := strings.Cut(strings.TrimSpace(set), "-")
	start, hasStart, ok1 := position(first)
	end, hasEnd, ok2 := position(last)
	if !found || !dashed || !ok1 || !ok2 || !hasStart && !hasEnd || hasStart && hasEnd && end < start {
		return nil, api.Refuse("Range", "the range %.80q cannot be read", header)
	}
	switch {
	case !hasStart: // the last bytes
		start, end = max(0, size-end), size-1
	case !hasEnd || end >= size:
		end = size - 1
	}
	if start > end {
		e := api.Refuse("Range", "the range %.80q is not in the file", header)
		e.Details["size"] = size
		return nil, e
	}
	return &span{start, end - start + 1}, nil
}

// position parses an optional number of bytes. Numbers above the maximum of int64 count as the maximum.
func position(s string) (n int64, given, ok bool) {
	s = strings.Trim(s, " \t")
	if s == "" {
		return 0, false, true
	}
	if strings.Trim(s, "0123456789") != "" {
		return 0, false, false
	}
	n, _ = strconv.ParseInt(s, 10, 64)
	return n, true, true
}

// unsatisfiable responds with 416, which is not the status of the error's code.
func unsatisfiable(w http.ResponseWriter, r *http.Request, size int64, err error) {
	w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", size))
	api.FailAs(w, r, http.StatusRequestedRangeNotSatisfiable, err)
}
