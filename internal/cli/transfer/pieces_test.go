package transfer

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestPieces(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"a": 10, "b": 20, "c": 30, "big": 300 << 10, "x/y/z/deep": 1} {
		write(t, dir+"/"+name, strings.Repeat(".", size), 0o644)
	}
	var u Upload
	defer u.Close()
	if err := u.AddDir(dir, false); err != nil {
		t.Fatal(err)
	}
	most := Bounds{bytes: 1 << 20, files: 3, depth: 2}
	if most.One(&u) {
		t.Error("what is too deep, and too many, goes at once")
	}
	if !(Bounds{bytes: 1 << 20, files: 8, depth: 3}).One(&u) {
		t.Error("what may go at once does not")
	}
	if (Bounds{bytes: 200 << 10, files: 8, depth: 3}).One(&u) {
		t.Error("what is too large goes at once")
	}
	var got []string
	for batch := range most.batches(&u) {
		names := []string{}
		for _, s := range batch.sources {
			names = append(names, s.Dst)
		}
		got = append(got, strings.Join(names, " "))
	}
	for _, s := range u.sources {
		if most.alone(s) {
			got = append(got, "alone "+s.Dst)
		}
	}
	if want := []string{"a b c", "x x/y", "alone big", "alone x/y/z", "alone x/y/z/deep"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// runtimes is a server whose runtimes have limits of their own.
type runtimes struct{ belljar.Service }

type node struct{ belljar.Node }

func (runtimes) Node() belljar.Node { return node{} }

func (node) Runtimes(context.Context) (belljar.Discovery, error) {
	return belljar.Discovery{Runtimes: []belljar.RuntimeInfo{
		{Name: "native", MaxUploadMB: 64, MaxUploadFiles: 1000, MaxUploadDepth: 16},
		{Name: "docker", MaxUploadMB: 1, MaxUploadFiles: 10, MaxUploadDepth: 4},
	}}, nil
}

func TestBoundsOfTheSession(t *testing.T) {
	for runtime, want := range map[string]Bounds{
		"native": {bytes: 64 << 20, files: 1000, depth: 16},
		"docker": {bytes: 1 << 20, files: 10, depth: 4},
	} {
		if got, err := BoundsOf(t.Context(), runtimes{}, belljar.Session{Runtime: runtime}); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", runtime, got, err, want)
		}
	}
	if got, err := BoundsOf(t.Context(), runtimes{}, belljar.Session{Runtime: "gvisor"}); err == nil {
		t.Errorf("a runtime that the server does not list: %v", got)
	}
}
