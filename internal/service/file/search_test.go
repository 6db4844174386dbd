package file

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar"
)

// slow is an expression that blocks until the timeout of a search.
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

// A search of long lines ends at its timeout, not hundreds of lines later.
func TestSearchTime(t *testing.T) {
	ctx, over := context.WithCancelCause(t.Context())
	line := &slow{over: over}
	s := &search{line: line}
	err := s.file(ctx, newLines(line.reach()), "f", strings.NewReader(strings.Repeat(strings.Repeat("a", expressionReach-1)+"\n", 100)))
	if !errors.Is(err, errSearchTime) || line.lines != 1 {
		t.Errorf("%d lines, %v", line.lines, err)
	}
}

func TestAlternatives(t *testing.T) {
	for pattern, want := range map[string]int{
		"a,b,c": 1, "{a,b}": 2, "{a,b}/{c,d,e}": 6, "{a,{b,c}}": 4, "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}": MaxAlternatives + 1,
	} {
		if got := Alternatives(pattern); got < min(want, MaxAlternatives+1) || got > MaxAlternatives+1 {
			t.Errorf("Alternatives(%q) = %d, want at least %d", pattern, got, want)
		}
	}
}

// A glob whose braces expand to too many patterns is refused, because matching one name would take forever.
func TestSearchBraces(t *testing.T) {
	for braces, want := range map[int]belljar.Code{1: "", 6: "", 7: belljar.CodeInvalidRequest, 170: belljar.CodeInvalidRequest} {
		_, err := newSearch(belljar.FileSearch{Name: strings.Repeat("{a,a}", braces) + "b"})
		if code := belljar.CodeOf(err); code != want && (err != nil || want != "") {
			t.Errorf("%d: %v", braces, err)
		}
	}
}

// One user's maximum number of searches does not block other users.
func TestSearchesOfOtherUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := New(Options{})
		hostile, other := view{files, belljar.Caller{ID: "hostile"}}, view{files, belljar.Caller{ID: "other"}}
		for range 2 * searchesWaiting {
			go func() {
				if turn, err := hostile.searching(t.Context()); err == nil {
					defer turn.Leave()
				}
				<-t.Context().Done()
			}()
		}
		synctest.Wait()
		for range 2 {
			turn, err := other.searching(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			turn.Leave()
		}
	})
}
