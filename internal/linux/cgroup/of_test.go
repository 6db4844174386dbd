//go:build linux

package cgroup

import (
	"os"
	"slices"
	"testing"
)

// A group made by this package is found by a process in it.
func TestOf(t *testing.T) {
	h := realHost(t)
	g := create(t, h, Spec{Limits: Limits{Memory: 32 << 20, Pids: 10}})
	member := command(t, g, "wait")
	stdin, err := member.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ready, err := member.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := member.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := ready.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	got, err := OfProcess(member.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range g.Folders() {
		if !slices.ContainsFunc(got.Folders(), func(f Folder) bool { return f.Version == want.Version && f.Path == want.Path }) {
			t.Errorf("%+v is not among %+v", want, got.Folders())
		}
	}
	mine, theirs := g.Usage(), got.Usage()
	for name, source := range mine.Sources {
		if theirs.Sources[name] != source {
			t.Errorf("%s from %q, not %q", name, theirs.Sources[name], source)
		}
	}
	stdin.Close()
	if err := member.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := OfProcess(member.Process.Pid); err == nil {
		t.Error("a process that has ended has a group")
	}
	if _, err := OfProcess(os.Getpid()); err != nil {
		t.Error(err)
	}
}
