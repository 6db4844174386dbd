//go:build linux

package warden

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Start starts a warden without another call. If it fails, the next call retries, and returns the error.
func TestStart(t *testing.T) {
	tried, broken := make(chan struct{}, 8), errors.New("no program")
	c := NewOwnClient(filepath.Join(t.TempDir(), "warden"), func() (*os.File, error) {
		tried <- struct{}{}
		return nil, broken
	})
	c.Start()
	<-tried
	if _, err := c.Figures("/none"); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if len(tried) == 0 {
		t.Error("it was not tried again")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
