//go:build linux

package examples

import (
	"context"
	"path/filepath"
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

// installed does for a copy of the tools what npm install would.
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
