package repl

import (
	"context"
	"errors"
	"testing"

	"github.com/belljar/belljar"
)

// starts keeps the request for a run, and refuses it.
type starts struct {
	belljar.Runs
	req belljar.RunRequest
}

// service has runs alone.
type service struct {
	belljar.Service
	runs *starts
}

func (s service) Runs() belljar.Runs { return s.runs }

func (s *starts) Start(_ context.Context, req belljar.RunRequest) (belljar.Run, error) {
	s.req = req
	return belljar.Run{}, errors.New("refused")
}

// Only code that can ask for a line gets an input that stays open: what reads in bash would wait for it until its timeout.
func TestInputOfCode(t *testing.T) {
	for language, want := range map[string]bool{"python": true, "ipython": true, "javascript": true, "bash": false} {
		s := &starts{}
		r := REPL{Service: service{runs: s}, Context: belljar.Context{Language: language}, lines: &typed{}}
		if _, err := r.execute(t.Context(), "x"); err == nil || s.req.Interactive != want || s.req.Code != "x" {
			t.Errorf("%s: %+v, %v", language, s.req, err)
		}
	}
}
