package runtimetest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

func testFiles(t *testing.T, o Options) {
	j := share(t, o)
	j.sub("write, stat, read", func(j *jar) {
		req := j.file("a.txt")
		req.Mode = 0o640
		info, err := j.agent.WriteFile(j.ctx, req, strings.NewReader("content"))
		if err != nil || info.Size != 7 {
			j.Fatalf("%+v, %v", info, err)
		}
		for _, path := range []string{"a.txt", "./a.txt", "/workspace/a.txt"} {
			info, err = j.agent.Stat(j.ctx, j.file(path))
			if err != nil || info.Path != "a.txt" || info.Type != "file" || info.Size != 7 || info.Mode != 0o640 || info.ModTime == 0 {
				j.Errorf("%s: %+v, %v", path, info, err)
			}
		}
		if got := j.read("a.txt"); got != "content" {
			j.Errorf("%q", got)
		}
		if got := j.must("cat a.txt; stat -c ' %u %g' a.txt"); got != fmt.Sprintf("content %d %d", j.o.UID, j.o.GID) {
			j.Errorf("seen from inside: %q", got)
		}
	})
	j.sub("ranges", func(j *jar) {
		j.write("digits", "0123456789")
		for _, c := range []struct {
			offset, limit int64
			want          string
		}{{0, 0, "0123456789"}, {3, 0, "3456789"}, {3, 4, "3456"}, {8, 100, "89"}, {10, 5, ""}, {50, 5, ""}} {
			req := j.file("digits")
			req.Offset, req.Limit = c.offset, c.limit
			r, info, err := j.agent.ReadFile(j.ctx, req)
			if err != nil {
				j.Fatal(err)
			}
			got, err := io.ReadAll(r)
			r.Close()
			if string(got) != c.want || err != nil || info.Size != 10 {
				j.Errorf("%d+%d: %q of %d, %v", c.offset, c.limit, got, info.Size, err)
			}
		}
		req := j.file("digits")
		req.Offset = -1
		_, _, err := j.agent.ReadFile(j.ctx, req)
		j.refused("a negative offset", err, wire.CodeInvalid)
	})
	j.sub("large", func(j *jar) {
		want := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB
		j.write("large", want)
		if j.read("large") != want {
			j.Error("it came back different")
		}
	})
	j.sub("write is whole or not at all", func(j *jar) {
		j.write("whole", "before")
		r, w := io.Pipe()
		wrote := make(chan error, 1)
		go func() {
			_, err := j.agent.WriteFile(j.ctx, j.file("whole"), r)
			wrote <- err
		}()
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			j.Fatal(err)
		}
		if got := j.read("whole"); got != "before" {
			j.Errorf("half a write is seen: %d bytes", len(got))
		}
		mishap := errors.New("the source fails")
		w.CloseWithError(mishap)
		if err := <-wrote; !errors.Is(err, mishap) {
			j.Errorf("write: %v", err)
		}
		if got := j.read("whole"); got != "before" {
			j.Errorf("half a write remains: %d bytes", len(got))
		}
		j.until("nothing is left of it", func() bool { return j.must("ls -A | grep -v '^[a-z.]*$' || true") == "" })
	})
	j.sub("no replace", func(j *jar) {
		j.write("taken", "x")
		req := j.file("taken")
		req.NoReplace = true
		_, err := j.agent.WriteFile(j.ctx, req, strings.NewReader("y"))
		j.refused("write", err, wire.CodeExists)
		j.write("other", "z")
		move := j.file("other")
		move.To, move.NoReplace = "taken", true
		j.refused("rename", j.agent.Rename(j.ctx, move), wire.CodeExists)
		if got := j.read("taken"); got != "x" {
			j.Errorf("%q", got)
		}
		move.NoReplace = false
		if err := j.agent.Rename(j.ctx, move); err != nil || j.read("taken") != "z" || j.exists("other") {
			j.Errorf("rename: %v", err)
		}
	})
	j.sub("parents", func(j *jar) {
		_, err := j.agent.WriteFile(j.ctx, j.file("new/folder/f"), strings.NewReader(""))
		j.refused("write into nothing", err, wire.CodeNotFound)
		req := j.file("new/folder/f")
		req.Parents = true
		if _, err := j.agent.WriteFile(j.ctx, req, strings.NewReader("")); err != nil {
			j.Error(err)
		}
	})
	j.sub("directories", func(j *jar) {
		if err := j.agent.Mkdir(j.ctx, j.file("dir")); err != nil {
			j.Fatal(err)
		}
		j.refused("mkdir twice", j.agent.Mkdir(j.ctx, j.file("dir")), wire.CodeExists)
		for _, name := range []string{"b", "a", "c"} {
			j.write("dir/"+name, name)
		}
		list, cut, err := j.agent.ReadDir(j.ctx, j.file("dir"))
		if err != nil || cut || !slices.Equal(paths(list), []string{"dir/a", "dir/b", "dir/c"}) {
			j.Errorf("%v, %v, %v", paths(list), cut, err)
		}
		some := j.file("dir")
		some.Limit = 2
		list, cut, err = j.agent.ReadDir(j.ctx, some)
		if err != nil || !cut || len(list) != 2 {
			j.Errorf("with a limit: %v, %v, %v", paths(list), cut, err)
		}
		j.refused("delete a full one", j.agent.Delete(j.ctx, j.file("dir")), wire.CodeInvalid)
		all := j.file("dir")
		all.Recursive = true
		if err := j.agent.Delete(j.ctx, all); err != nil || j.exists("dir") {
			j.Errorf("delete: %v", err)
		}
		j.refused("delete nothing", j.agent.Delete(j.ctx, j.file("dir")), wire.CodeNotFound)
		_, _, err = j.agent.ReadFile(j.ctx, j.file("."))
		j.refused("read a directory", err, wire.CodeNotFile)
		all.Path = "."
		if err := j.agent.Delete(j.ctx, all); err == nil {
			j.Error("the workspace itself can be deleted")
		}
	})
	j.sub("walk", func(j *jar) {
		for _, path := range []string{"tree/x/1", "tree/x/2", "tree/y/z/3"} {
			req := j.file(path)
			req.Parents = true
			if _, err := j.agent.WriteFile(j.ctx, req, strings.NewReader(path)); err != nil {
				j.Fatal(err)
			}
		}
		j.must("ln -s .. tree/loop")
		want := []string{"tree/loop", "tree/x", "tree/x/1", "tree/x/2", "tree/y", "tree/y/z", "tree/y/z/3"}
		var got []wire.FileInfo
		visit := func(f wire.FileInfo) error {
			got = append(got, f)
			return nil
		}
		if cut, err := j.agent.Walk(j.ctx, j.file("tree"), visit); err != nil || cut {
			j.Fatal(cut, err)
		}
		seen := paths(got)
		for i, p := range seen { // parents first
			if dir := p[:strings.LastIndex(p, "/")]; dir != "tree" && !slices.Contains(seen[:i], dir) {
				j.Errorf("%s comes before its folder", p)
			}
		}
		if slices.Sort(seen); !slices.Equal(seen, want) {
			j.Errorf("%v", seen)
		}
		for _, f := range got {
			if f.Path == "tree/loop" && (f.Type != "symlink" || f.Target != "..") {
				j.Errorf("%+v", f)
			}
		}
		stop := errors.New("enough")
		if _, err := j.agent.Walk(j.ctx, j.file("tree"), func(wire.FileInfo) error { return stop }); !errors.Is(err, stop) {
			j.Errorf("stopped: %v", err)
		}
		some := j.file("tree")
		some.Limit = 3
		got = nil
		if cut, err := j.agent.Walk(j.ctx, some, visit); err != nil || !cut || len(got) != 3 {
			j.Errorf("with a limit: %v, %v, %v", paths(got), cut, err)
		}
	})
	j.sub("many", func(j *jar) {
		const files, writers = 600, 6
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := w; i < files; i += writers {
					req := j.file(fmt.Sprintf("many/%d/%d", i%10, i))
					req.Parents = true
					if _, err := j.agent.WriteFile(j.ctx, req, strings.NewReader(fmt.Sprint(i))); err != nil {
						j.Errorf("%d: %v", i, err)
						return
					}
				}
			})
		}
		all.Wait()
		n := 0
		cut, err := j.agent.Walk(j.ctx, j.file("many"), func(f wire.FileInfo) error {
			if f.Type == "file" {
				n++
			}
			return nil
		})
		if n != files || cut || err != nil {
			j.Errorf("%d files, %v, %v", n, cut, err)
		}
	})
}

func paths(list []wire.FileInfo) []string {
	var all []string
	for _, f := range list {
		all = append(all, f.Path)
	}
	return all
}
