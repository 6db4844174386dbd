package runtimetest

import (
	"archive/tar"
	"fmt"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// testMerge merges archives into a workspace as its user: completely or not at all.
func testMerge(t *testing.T, o Options) {
	regular := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }
	j := share(t, o)
	j.sub("takes its place", func(j *jar) {
		j.must("mkdir -p m/old; echo before > m/old/f; echo other > m/old/other")
		n, err := j.agent.Merge(j.ctx, j.file("m"), archive(regular("old/f"), regular("new/er/f"), regular("f")))
		if want := int64(len("old/fnew/er/ff")); err != nil || n != want {
			j.Fatalf("%d bytes of %d, %v", n, want, err)
		}
		got := j.must("cd m; find . -type f | sort | xargs cat; rm -r old new f; cd ..; ls -A")
		if strings.Join(strings.Fields(got), " ") != "fnew/er/fold/fother m" {
			j.Errorf("%q", got)
		}
	})
	j.sub("all or nothing", func(j *jar) {
		j.must("mkdir -p n/z; echo before > n/a")
		_, err := j.agent.Merge(j.ctx, j.file("n"), archive(regular("a"), regular("b"), regular("z")))
		j.refused("a file over a folder", err, wire.CodeExists)
		if got := j.must("cat n/a; ls n; ls -A"); strings.Join(strings.Fields(got), " ") != "before a z m n" {
			j.Errorf("%q", got)
		}
	})
	j.sub("while a program runs", func(j *jar) {
		p := j.start(j.sh("echo up; until [ -e merged/99 ]; do :; done; ls merged | wc -l"))
		w := j.watch(p)
		w.await("up")
		var many []tar.Header
		for i := range 100 {
			many = append(many, regular(fmt.Sprintf("merged/%d", i)))
		}
		if _, err := j.agent.Merge(j.ctx, j.file("."), archive(many...)); err != nil {
			j.Fatal(err)
		}
		w.await("100")
		w.end()
	})
	if !o.Isolated {
		return
	}
	// A workspace has a limit if sandboxes are isolated.
	small := open(t, o, func(s *runtime.Spec) { s.Workspace.Bytes, s.Workspace.Inodes = 1<<20, 64 })
	small.must("echo before > a")
	var many []tar.Header
	for i := range 100 {
		many = append(many, regular(fmt.Sprint(i)))
	}
	_, err := small.agent.Merge(small.ctx, small.file("."), archive(append([]tar.Header{regular("a")}, many...)...))
	small.refused("more files than there is room for", err, wire.CodeNoSpace)
	if got := small.must("cat a; ls -A"); strings.Join(strings.Fields(got), " ") != "before a" {
		small.Errorf("%q", got)
	}
}
