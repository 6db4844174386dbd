//go:build linux

package security

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// refusal checks that a server on l, which demands every protection, refuses to start without those that are missing, and
// names them.
func refusal(t *testing.T, l *lane, missing []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	tr := l.trial(t)
	var stdout, stderr bytes.Buffer
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(tr.dir, "data")}, l.serve...)
	p := tr.start(ctx, args, nil, &stdout, &stderr)
	if err := p.wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	said := stderr.String()
	if tr.account.Status == 0 || strings.Contains(said, "serving on") {
		t.Errorf("lane %s serves, though it cannot enforce %v:\n%s", l.name, missing, said)
	}
	for _, limit := range missing {
		name, _, _ := strings.Cut(limit, "-")
		if !strings.Contains(said, name) {
			t.Errorf("the refusal does not name %s:\n%s", name, said)
		}
	}
}
