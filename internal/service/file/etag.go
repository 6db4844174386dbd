package file

import (
	"encoding/hex"
	"errors"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

// mostTagged is the largest written file that gets an ETag in the response: the same as the maximum of a whole-file read.
const mostTagged = 8 << 20

// Bounds of an If-Match.
const (
	maxTags     = 16
	maxTagBytes = 4 << 10
)

// tagsOf parses an If-Match: "*", or ETags in quotes. A weak ETag matches nothing.
func tagsOf(header string) ([]string, error) {
	bad := &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "If-Match must be * or ETags in quotes, separated by commas", Details: map[string]any{"field": "If-Match"},
		Hint: "use the etag of a read or a write, with its quotes",
	}
	rest := strings.Trim(header, " \t")
	switch {
	case rest == "":
		return nil, nil
	case len(rest) > maxTagBytes:
		return nil, bad
	case rest == "*":
		return []string{"*"}, nil
	}
	var tags []string
	for tag := range strings.SplitSeq(rest, ",") {
		tag = strings.Trim(tag, " \t")
		opaque, weak := strings.CutPrefix(tag, "W/")
		if len(opaque) < 2 || opaque[0] != '"' || strings.IndexByte(opaque[1:], '"') != len(opaque)-2 || len(tags) == maxTags {
			return nil, bad
		}
		if opaque = opaque[1 : len(opaque)-1]; weak || opaque == "*" {
			opaque = "none"
		}
		tags = append(tags, opaque)
	}
	return tags, nil
}

// unmatched is the error of a conditional write. A missing folder has no file that matches.
func unmatched(err error) error {
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Code == wire.CodeNotFound {
		return &wire.Error{Code: wire.CodeChanged}
	}
	return err
}

// add hashes a part.
func (m *input) add(part []byte) {
	switch {
	case m.sum == nil:
	case m.read > mostTagged:
		m.sum = nil
	default:
		m.sum.Write(part)
	}
}

// etag returns the ETag of the bytes read, "" if there were too many.
func (m *input) etag() string {
	if m.sum == nil {
		return ""
	}
	return `"` + hex.EncodeToString(m.sum.Sum(nil)) + `"`
}
