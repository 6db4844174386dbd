package runtimetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
)

// testOverlay tests that a workspace that begins with a folder of the host behaves like any other, and that programs never change the
// folder. A runtime that does not support it reports that.
func testOverlay(t *testing.T, o Options) {
	r := o.New(t)
	caps, err := r.Probe(within(t))
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	below := runtime.Below{Dir: filepath.Join(top, "lower"), Bytes: 3<<20 + 3*4096, Files: 9}
	prepareBelow(t, below.Dir, o)
	if !caps.Overlay {
		spec := o.spec()
		spec.Workspace.Below = below
		if _, err := r.Create(within(t), spec); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a runtime without overlays made a sandbox with one: %v", err)
		}
		return
	}
	spec := o.spec()
	spec.Workspace.Below = below
	switch box, err := r.Create(within(t), spec); {
	case errors.Is(err, errors.ErrUnsupported): // the runtime's own tests check when it must be supported
		t.Skipf("no overlay over the file system of %s: %v", top, err)
	case err != nil:
		t.Fatal(err)
	default:
		if err := box.Destroy(within(t)); err != nil {
			t.Error(err)
		}
	}
	for _, exec := range []bool{true, false} {
		j := create(t, o, r, func(s *runtime.Spec) {
			s.Workspace.Bytes, s.Workspace.Below, s.Workspace.Exec = 16<<20, below, exec
		})
		ran := ""
		if exec {
			ran = "ran"
		}
		for _, c := range [][2]string{
			{"ls -A; stat -c '%u %a %h' d/e/file one; cat link", fmt.Sprintf("big\nd\nlink\none\ntwo\n%[1]d 640 1\n%[1]d 640 2\none", o.UID)},
			{"mv d f && cat f/e/file && rm -r f && mkdir f d && ls -A f d", "d/e/filed:\n\nf:"},
			{"echo more >>one; cat two; rm one; cat two; stat -c %h two", "onemore\nonemore\n1"},
			{"ln two three; echo >two; cat three | wc -c; : >new; chmod 700 new; mv new two; ls", "1\nbig\nd\nf\nlink\nthree\ntwo"},
			{"printf '#!/bin/sh\\necho ran' >run; chmod 755 run; ./run; mkdir -p a/b; mv a/b .; rmdir a b", ran},
			// The lower files and the changes share the workspace's size.
			{"head -c 1G /dev/zero >fill 2>/dev/null; [ $(stat -c %s fill) -lt $((13 << 20)) ] && [ $(stat -c %s fill) -gt $((11 << 20)) ] || stat fill; rm fill", ""},
			{"mount -o remount,ro . ; umount . ; mount --bind / . ; ls -d /tmp/overlay; echo x >/tmp/x; ls -A /tmp", "x"},
		} {
			if got := j.run(j.sh(c[0])); strings.TrimSuffix(got.out, "\n") != c[1] {
				t.Errorf("%s:\n%q, want %q; %s", c[0], got.out, c[1], got.err)
			}
		}
		// The agent sees the same files.
		if info, err := j.agent.Stat(j.ctx, j.file("three")); err != nil || info.Size != 1 {
			t.Errorf("%+v, %v", info, err)
		}
		if err := j.Destroy(j.ctx); err != nil {
			t.Fatal(err)
		}
		if raw, err := os.ReadFile(filepath.Join(below.Dir, "one")); err != nil || string(raw) != "one" {
			t.Errorf("the folder was changed: %q, %v", raw, err)
		}
		if entries, err := os.ReadDir(top); err != nil || len(entries) != 1 {
			t.Errorf("the probe left %v, %v", entries, err)
		}
	}
	for _, over := range []runtime.Below{{Dir: below.Dir, Bytes: 9 << 20}, {Dir: below.Dir, Files: 1 << 40}} {
		spec := o.spec()
		spec.Workspace.Bytes, spec.Workspace.Below = 16<<20, over
		if _, err := r.Create(within(t), spec); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%+v: %v", over, err)
		}
	}
}

// prepareBelow makes the files that a workspace begins with.
func prepareBelow(t *testing.T, dir string, o Options) {
	t.Helper()
	in := func(name string) string { return filepath.Join(dir, name) }
	err := os.MkdirAll(in("d/e"), 0o755)
	for _, name := range []string{"d/e/file", "d/gone", "one", "big"} {
		text := name
		if name == "big" {
			text = string(make([]byte, 3<<20))
		}
		err = errors.Join(err, os.WriteFile(in(name), []byte(text), 0o640))
	}
	err = errors.Join(err, os.Link(in("one"), in("two")), os.Symlink("one", in("link")), os.Chmod(dir, 0o755))
	if os.Geteuid() == 0 {
		err = errors.Join(err, filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(name, o.UID, o.GID))
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
}
