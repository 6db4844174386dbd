//go:build linux

package service_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/shelf"
	"github.com/belljar/belljar/test/need"
)

// layerless is a runtime that makes its sandboxes without the layers that it is given.
type layerless struct{ runtime.Runtime }

func (l layerless) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	spec.Root.Layers = nil
	return l.Runtime.Create(ctx, spec)
}

// A built program is cached only for the same program of the same user.
func TestBuildCache(t *testing.T) {
	if _, err := os.Stat("/usr/bin/cc"); err != nil {
		need.Missing(t, "cc under /usr")
	}
	b := newBench(t, func(o *service.Options) {
		o.Runtimes = []runtime.Runtime{layerless{claiming{o.Runtimes[0], relays}}}
		o.Snapshots.Shelf = &shelf.Shelf{Dir: t.TempDir(), Keep: 1 << 20, Max: 1 << 20}
	})
	snapshot := func(header string) string {
		made, err := b.snapshots().Import(b.context(), belljar.SnapshotSpec{}, archive(t, map[string]string{"value.h": header}))
		if err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	one, two := snapshot("#define VALUE 1\n"), snapshot("#define VALUE 2\n")
	ask := func(change func(*belljar.RunSpec)) belljar.RunRequest {
		req := code("c", "#include <stdio.h>\n#warning heed\nint main(void) { int c = getchar(); return c < 0 ? 1 : c; }")
		req.WorkspaceExec, req.BuildCache, req.Env = true, true, map[string]string{"TMPDIR": "."} // here /workspace is another folder
		return with(req, change)
	}
	same := func(*belljar.RunSpec) {}
	if r := b.run(ask(same)); r.ExitStatus() != 1 || r.Build.Cached || !strings.Contains(r.Build.Output, "heed") {
		t.Fatalf("first: %+v, build %+v", r.Run, r.Build)
	}
	for _, test := range []struct {
		name   string
		change func(*belljar.RunSpec)
		cached bool
		status int
	}{
		{"same", same, true, 1},
		{"other input", func(s *belljar.RunSpec) { s.Stdin = "A" }, true, 65},
		{"other text", func(s *belljar.RunSpec) { s.Code += "\n" }, false, 1},
		{"other file", func(s *belljar.RunSpec) { s.Files = []belljar.InlineFile{{Path: "stdio.h", Content: []byte("x")}} }, false, 1},
		{"other flags", func(s *belljar.RunSpec) { s.Env["CPATH"] = "x" }, false, 1},
		{"other place", func(s *belljar.RunSpec) { s.Env["PATH"] = ".:/usr/bin:/bin" }, false, 1},
		{"not asked", func(s *belljar.RunSpec) { s.BuildCache = false }, false, 1},
		{"a snapshot", func(s *belljar.RunSpec) { s.Snapshot = one }, false, 1},
		{"same snapshot", func(s *belljar.RunSpec) { s.Snapshot = one }, true, 1},
		{"other snapshot", func(s *belljar.RunSpec) { s.Snapshot = two }, false, 1},
	} {
		r := b.run(ask(test.change))
		if r.Build == nil || r.Build.Cached != test.cached || r.ExitStatus() != test.status || !strings.Contains(r.Build.Output, "heed") {
			t.Errorf("%s: %+v, build %+v", test.name, r.Run, r.Build)
		}
	}
	other := b.service.As(belljar.Caller{ID: "another", Role: belljar.RoleUser}).Runs()
	run, err := other.Start(b.context(), ask(same))
	if err == nil {
		run, _, err = belljar.Collect(b.context(), other, run.ID)
	}
	if err != nil || run.Build == nil || run.Build.Cached || run.ExitStatus() != 1 {
		t.Errorf("another user: %+v, build %+v, %v", run, run.Build, err)
	}
	if _, err := b.Start(b.context(), with(shell("true"), func(s *belljar.RunSpec) { s.BuildCache = true })); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("without a language: %v", err)
	}
	upload := ask(same)
	upload.Upload = archive(t, map[string]string{"x": "y"})
	if _, err := b.Start(b.context(), upload); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("with an upload: %v", err)
	}
}
