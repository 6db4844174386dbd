package archive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// keep writes a sample to the corpus of a fuzz target if BELLJAR_UPDATE_CORPUS is set, else checks that it exists.
func keep(t *testing.T, name string, body []byte) {
	t.Helper()
	file := filepath.Join("testdata", "fuzz", filepath.FromSlash(name))
	if os.Getenv("BELLJAR_UPDATE_CORPUS") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("%s is missing from the corpus: run with BELLJAR_UPDATE_CORPUS=1", name)
	}
}
