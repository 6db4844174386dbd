//go:build linux

package security

import (
	"bytes"
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// refusal checks that a server on l that demands every protection refuses to start without the missing ones, and names
// them. The command line must refuse a run that sets the limit.
func refusal(t *testing.T, l *lane, s script, missing []string) {
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
	message := stderr.String()
	if tr.account.Status == 0 || strings.Contains(message, "serving on") {
		t.Errorf("lane %s serves, though it cannot enforce %v:\n%s", l.name, missing, message)
	}
	for _, limit := range missing {
		name, _, _ := strings.Cut(limit, "-")
		if !strings.Contains(message, name) {
			t.Errorf("the refusal does not name %s:\n%s", name, message)
		}
	}

	var printed bytes.Buffer
	stderr.Reset()
	asked := slices.Concat([]string{"run", "--runtime", l.runtime}, s.flags, []string{"--image", cmp.Or(tr.ref, "host"), "--", "true"})
	if err := tr.start(ctx, asked, nil, &printed, &stderr).wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if message := stderr.String(); tr.account.Status != 125 || !strings.Contains(message, "cannot be enforced here") {
		t.Errorf("lane %s runs what asks for %v: status %d\n%s", l.name, missing, tr.account.Status, message)
	}
}
