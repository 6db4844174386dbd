package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
)

// TestRun lists the parts of this test's own program.
func TestRun(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "list.json")
	if err := run(out, "1.2.3", []string{self}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if c := got.Metadata.Component; c.Name != filepath.Base(self) || c.Version != "1.2.3" || len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64 {
		t.Errorf("the program is %+v", c)
	}
	if len(got.Components) == 0 || got.Components[0].Name != "std" {
		t.Errorf("the standard library is missing: %+v", got.Components)
	}
	if err := run(out, "1.2.3", []string{"main.go"}); err == nil {
		t.Error("a text passes for a program")
	}
}

func TestListModules(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.2.3", Main: debug.Module{Path: "example.com/main"}, Deps: []*debug.Module{
		{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v2.0.0+incompatible"}},
	}}
	got := list(info, "main", "v0.1.0", "sum")
	want := []string{"pkg:golang/std@1.2.3", "pkg:golang/example.com/new@v2.0.0%2Bincompatible"}
	if refs := got.Dependencies[0].DependsOn; !slices.Equal(refs, want) {
		t.Errorf("parts are %q, want %q", refs, want)
	}
	if purl := got.Metadata.Component.PURL; purl != "pkg:golang/example.com/main@v0.1.0" {
		t.Errorf("the program is %s", purl)
	}
}
