//go:build linux

package examples

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar/test/sdk"
)

// typescript is the SDK for TypeScript, built once for all tests.
var typescript = sync.OnceValues(func() (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	return sdk.TypeScript(ctx, filepath.Dir(built.Belljar), "build")
})

// installed does the same as npm install for a copy of the tools.
func installed(t *testing.T, dir string) []string {
	t.Helper()
	built, err := typescript()
	if err == nil {
		err = sdk.Depend(filepath.Join(dir, "typescript"), built)
	}
	if err != nil {
		t.Fatal(err)
	}
	return nil
}

// TestLongFile makes the toolbox read a file of which it shows the beginning and the end.
func TestLongFile(t *testing.T) {
	dir := filepath.Join(copied(t), "tools")
	const play = `[
	  {"calls": [{"name": "shell", "input": {"command": "seq 20000 >numbers"}}]},
	  {"calls": [{"name": "read_file", "input": {"path": "numbers"}}]},
	  {"given": ["1\n2\n3\n", "[100894 characters left out]", "\n19999\n20000\n"], "text": "All of it."}
	]`
	if err := os.WriteFile(filepath.Join(dir, "play.json"), []byte(play), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := bash(t, dir, "python3 ../model/model.py play.json -- python3 python/ask.py 'How long is it?'")
	if err != nil || !strings.HasSuffix(out, "All of it.\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
