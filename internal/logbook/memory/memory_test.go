package memory_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/logbook/logbooktest"
	"github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func TestConformance(t *testing.T) {
	logbooktest.Run(t, func(*testing.T) logbook.Book { return memory.New() })
}

// Many frames of one byte cost a few bytes each, rather than the hundred of a slice of frames.
func TestSmallFramesAreCheap(t *testing.T) {
	const frames = 1 << 18
	log, err := memory.New().Create("run")
	if err != nil {
		t.Fatal(err)
	}
	one := []belljar.Frame{{Type: belljar.FrameStdout, Output: []byte("x")}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range frames {
		if err := log.Append(one...); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / frames; got > 5 {
		t.Errorf("%d bytes of memory for a frame of one byte, want at most 5", got)
	}
}
