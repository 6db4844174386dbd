package dir_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook/dir"
	"github.com/belljar/belljar/test/power"
)

// TestPowerCut checks that a sealed log is complete on a disk that stops right after Seal.
func TestPowerCut(t *testing.T) {
	disk := power.On(t)
	id := belljar.NewID()
	book, err := dir.Open(dir.Options{Path: disk.Path("logs")})
	if err != nil {
		t.Fatal(err)
	}
	log, err := book.Create(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if err := log.Append(belljar.Frame{Type: belljar.FrameStdout, Output: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	disk.Cut()

	book, err = dir.Open(dir.Options{Path: disk.Path("logs")})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if log, err = book.Open(id); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(belljar.Frame{Type: belljar.FrameStdout}); err == nil {
		t.Fatal("the log is not sealed")
	}
	got := ""
	for f, err := range log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		got += string(f.Output)
	}
	if got != "onetwo" {
		t.Errorf("the log has %q", got)
	}
}
