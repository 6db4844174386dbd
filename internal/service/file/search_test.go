package file

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// slow is an expression that takes until the time for a search is over.
type slow struct {
	over  context.CancelCauseFunc
	lines int
}

func (s *slow) find([]byte) (from, to int, ok bool) {
	s.over(errSearchTime)
	s.lines++
	return 0, 0, false
}

func (*slow) reach() int { return expressionReach }

// A search of long lines ends when its time is over, and not hundreds of lines later.
func TestSearchTime(t *testing.T) {
	ctx, over := context.WithCancelCause(t.Context())
	line := &slow{over: over}
	s := &search{line: line}
	err := s.file(ctx, newLines(line.reach()), "f", strings.NewReader(strings.Repeat(strings.Repeat("a", expressionReach-1)+"\n", 100)))
	if !errors.Is(err, errSearchTime) || line.lines != 1 {
		t.Errorf("%d lines, %v", line.lines, err)
	}
}
