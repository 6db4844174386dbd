package stream

import (
	"net/url"
	"strconv"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// start is the seq of the first frame that a reader requests. It is at least 1.
type start struct{ seq uint64 }

// tail reports whether the reader requests only new frames.
func (s start) tail() bool { return s.seq == belljar.Tail }

// startOf reads from_seq (inclusive, or "tail") and since_seq (exclusive). otherwise is the default; 0 is the first frame.
func startOf(q url.Values, otherwise uint64) (start, error) {
	from, hasFrom, err := single(q, "from_seq")
	if err != nil {
		return start{}, err
	}
	since, hasSince, err := single(q, "since_seq")
	if err != nil {
		return start{}, err
	}
	switch {
	case hasFrom && hasSince:
		return start{}, api.Refuse("since_seq", "from_seq and since_seq exclude each other")
	case hasFrom && from == "tail":
		return start{belljar.Tail}, nil
	case hasFrom:
		n, err := seqOf("from_seq", from)
		return start{max(n, 1)}, err
	case hasSince:
		n, err := seqOf("since_seq", since)
		return start{n + 1}, err
	}
	return start{max(otherwise, 1)}, nil
}

// maxSeq is the largest seq that a client may name: the largest integer that every JSON reader holds exactly.
const maxSeq = 1<<53 - 1

func seqOf(name, text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > maxSeq {
		return 1, api.Refuse(name, "%s %q is not a sequence number", name, text)
	}
	return n, nil
}

// single returns the value of a parameter that may be given only once.
func single(q url.Values, name string) (value string, given bool, err error) {
	values := q[name]
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	}
	return "", false, api.Refuse(name, "%s is given %d times", name, len(values))
}
