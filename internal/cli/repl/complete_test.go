package repl

import (
	"context"
	"testing"

	"github.com/belljar/belljar"
)

// completes is a service whose contexts return the same completions for all code.
type completes struct {
	belljar.Service
	contexts completions
}

func (c completes) Contexts() belljar.Contexts { return c.contexts }

type completions struct {
	belljar.Contexts
	found belljar.Completion
}

func (c completions) Complete(context.Context, string, string, string) (belljar.Completion, error) {
	return c.found, nil
}

// The common prefix of several names ends with a whole character.
func TestCompleteWholeCharacters(t *testing.T) {
	r := &REPL{Service: completes{contexts: completions{found: belljar.Completion{Word: "t", Matches: []string{"thé", "thè"}}}}}
	if line, pos, _ := r.complete(t.Context(), &typed{}, "x = t", 5); line != "x = th" || pos != 6 {
		t.Errorf("%q, %d", line, pos)
	}
}
