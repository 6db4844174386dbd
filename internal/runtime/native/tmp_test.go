//go:build linux

package native_test

import (
	"context"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/need"
)

// Programs can be executed in /tmp if they can in the workspace, and both folders share one size.
func TestTmpIsPartOfAnExecutableWorkspace(t *testing.T) {
	r := open(t, t.TempDir())
	const try = `for dir in /workspace /tmp; do echo '#!/bin/sh' >$dir/own; chmod +x $dir/own; $dir/own 2>/dev/null && echo $dir; done; true`
	for _, c := range []struct {
		name   string
		exec   bool
		script string
		want   string
	}{
		{"executed", true, try, "/workspace\n/tmp\n"},
		{"not executed", false, try, ""},
		{"folders of their own", true, `touch /tmp/a b; ls -A /tmp /workspace; stat -c '%a %U' /tmp /workspace`, "/tmp:\na\n\n/workspace:\nb\n1777 sandbox\n755 sandbox\n"},
		{"one cap", true, `head -c 12m /dev/zero >/tmp/most && head -c 8m /dev/zero 2>/dev/null >more || rm /tmp/most && head -c 12m /dev/zero >more && echo full`, "full\n"},
		{"one cap on inodes", true, `cd /tmp; i=0; while echo >/workspace/f$i && echo >f$i; do i=$((i+1)); done 2>/dev/null; [ $i -gt 2000 ] && [ $i -lt 2048 ] && echo $((i / 2000))`, "1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spec()
			s.Workspace.Exec = c.exec
			box, err := r.Create(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			defer box.Destroy(context.Background())
			if got := output(t, box, "sh", "-c", c.script); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// The file system that both share counts once.
func TestSharedFilesCountOnce(t *testing.T) {
	r := open(t, t.TempDir())
	box, err := r.Create(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	defer box.Destroy(context.Background())
	output(t, box, "sh", "-c", "head -c 6m /dev/zero >/workspace/a; head -c 4m /dev/zero >/tmp/b")
	usage, err := box.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if usage.Files == nil {
		need.Missing(t, "a count of files in memory: %q", sources(usage))
	}
	const want, more = 10 << 20, 1 << 20
	if *usage.Files < want || *usage.Files > want+more {
		t.Errorf("%d bytes of files, want %d", *usage.Files, want)
	}
}

func sources(u runtime.Usage) (list []string) {
	for name, source := range u.Sources {
		list = append(list, name+": "+source)
	}
	return list
}
