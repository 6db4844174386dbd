package file

import (
	"archive/tar"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

// The answer of a batch has the times of its files, even if a second begins before they are written. The times are no older
// than the request: make compares them with files that a program has just built.
func TestBatchTimes(t *testing.T) {
	now := time.Unix(1_796_010_596, 999_999_000)
	list, err := checkBatch([]belljar.FileWrite{{Path: "a", Content: strings.NewReader("x")}, {Path: "b", Mode: 0o755}})
	if err != nil {
		t.Fatal(err)
	}
	packed, entries, _, err := (&use{}).pack(list, now)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%+v, %v", entries, err)
	}
	r := tar.NewReader(packed)
	for _, e := range entries {
		head, err := r.Next()
		if err != nil || !head.ModTime.Equal(now) || e.MtimeUnix != now.Unix() || head.Name != e.Path {
			t.Errorf("%+v of %+v, %v", e, head, err)
		}
	}
}
