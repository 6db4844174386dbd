//go:build linux

package service_test

import (
	"os"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/service"
)

// brokenDrafts are blobs whose drafts cannot be written.
type brokenDrafts struct{ *blobs }

func (brokenDrafts) Draft() (*os.File, error)      { return os.Open(os.DevNull) }
func (brokenDrafts) Keep(blob.Key, *os.File) error { return nil }

// A failure of the server's disk is not reported as the caller's cancellation.
func TestImportOnABrokenDisk(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Blobs = brokenDrafts{newBlobs()} })
	_, err := b.snapshots().Import(b.context(), belljar.SnapshotSpec{}, archive(t, map[string]string{"file": strings.Repeat("text", 1000)}))
	refusedAs(t, "an import", err, belljar.CodeInternal)
}
