package runtimetest

import (
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

func testPaths(t *testing.T, o Options) {
	j := share(t, o)
	j.must(`mkdir real; echo inside >real/file
		ln -s real/file in; ln -s /workspace/real/file absolute; ln -s /etc/passwd out; ln -s .. up
		ln -s real dir; ln -s nowhere dangling; ln -s self self; mkfifo fifo`)

	j.sub("names that are no paths in the workspace", func(j *jar) {
		for _, path := range []string{"", "..", "../x", "real/../../x", "/no/such/file", "/", "/workspacex", "/workspace/../no/such/file", "a\x00b"} {
			for name, err := range j.everyOperation(path) {
				j.refused(name+" "+path, err, wire.CodeInvalid, wire.CodePathEscapes)
			}
		}
	})
	j.sub("links inside", func(j *jar) {
		for _, path := range []string{"in", "absolute", "dir/file", "/workspace/dir/file"} {
			if got := j.read(path); got != "inside\n" {
				j.Errorf("%s: %q", path, got)
			}
		}
	})
	j.sub("links outside", func(j *jar) {
		for _, path := range []string{"out", "up/etc/passwd", "up/x"} {
			_, _, err := j.agent.ReadFile(j.ctx, j.file(path))
			j.refused("read "+path, err, wire.CodePathEscapes)
		}
		_, err := j.agent.WriteFile(j.ctx, j.file("up/x"), strings.NewReader("x"))
		j.refused("write up/x", err, wire.CodePathEscapes)
		j.refused("mkdir up/x", j.agent.Mkdir(j.ctx, j.file("up/x")), wire.CodePathEscapes)
		j.refused("delete up/x", j.agent.Delete(j.ctx, j.file("up/x")), wire.CodePathEscapes)
		// The link itself is a file of the workspace.
		if info, err := j.agent.Stat(j.ctx, j.file("out")); err != nil || info.Type != "symlink" || info.Target != "/etc/passwd" {
			j.Errorf("%+v, %v", info, err)
		}
	})
	j.sub("no link at all", func(j *jar) {
		for _, path := range []string{"in", "dir/file"} {
			req := j.file(path)
			req.NoFollow = true
			if r, _, err := j.agent.ReadFile(j.ctx, req); err == nil {
				r.Close()
				j.Errorf("%s was followed", path)
			} else if codeOf(err) == "" {
				j.Errorf("%s: %v", path, err)
			}
		}
	})
	j.sub("links to nothing", func(j *jar) {
		_, _, err := j.agent.ReadFile(j.ctx, j.file("dangling"))
		j.refused("dangling", err, wire.CodeNotFound)
		if _, _, err = j.agent.ReadFile(j.ctx, j.file("self")); codeOf(err) == "" {
			j.Errorf("a link to itself: %v", err)
		}
	})
	j.sub("a FIFO never blocks", func(j *jar) {
		_, _, err := j.agent.ReadFile(j.ctx, j.file("fifo"))
		j.refused("read", err, wire.CodeNotFile)
		if info, err := j.agent.Stat(j.ctx, j.file("fifo")); err != nil || info.Type != "other" {
			j.Errorf("%+v, %v", info, err)
		}
		// A write either refuses or replaces the fifo; it must not wait for a reader.
		if _, err := j.agent.WriteFile(j.ctx, j.file("fifo"), strings.NewReader("x")); err != nil && codeOf(err) == "" {
			j.Errorf("write: %v", err)
		}
	})
	j.sub("a link is deleted, not its target", func(j *jar) {
		j.must("mkdir victim; echo x >victim/file; ln -s victim gate")
		req := j.file("gate")
		req.Recursive = true
		if err := j.agent.Delete(j.ctx, req); err != nil || j.read("victim/file") != "x\n" {
			j.Errorf("%v", err)
		}
	})
	j.sub("the user's rights", func(j *jar) {
		if j.o.UID == 0 {
			j.Skip("root may read everything")
		}
		j.must("echo x >secret; chmod 000 secret")
		_, _, err := j.agent.ReadFile(j.ctx, j.file("secret"))
		j.refused("read", err, wire.CodeDenied)
	})
}

// everyOperation tries all operations on a path, including those that destroy it: without isolation it must be a path that
// no caller needs.
func (j *jar) everyOperation(path string) map[string]error {
	errs := map[string]error{}
	_, errs["stat"] = j.agent.Stat(j.ctx, j.file(path))
	r, _, err := j.agent.ReadFile(j.ctx, j.file(path))
	if errs["read"] = err; err == nil {
		r.Close()
	}
	_, errs["write"] = j.agent.WriteFile(j.ctx, j.file(path), strings.NewReader("x"))
	_, _, errs["readdir"] = j.agent.ReadDir(j.ctx, j.file(path))
	_, errs["walk"] = j.agent.Walk(j.ctx, j.file(path), func(wire.FileInfo) error { return nil })
	errs["mkdir"] = j.agent.Mkdir(j.ctx, j.file(path))
	errs["delete"] = j.agent.Delete(j.ctx, j.file(path))
	move := j.file(path)
	move.To = "moved"
	errs["rename from"] = j.agent.Rename(j.ctx, move)
	move = j.file("real/file")
	move.To = path
	errs["rename to"] = j.agent.Rename(j.ctx, move)
	_, errs["tar in"] = j.agent.TarIn(j.ctx, j.file(path), strings.NewReader(""))
	errs["tar out"] = j.agent.TarOut(j.ctx, j.file(path), &strings.Builder{})
	return errs
}
