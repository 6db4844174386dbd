package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/logbook/logbooktest"
	"github.com/belljar/belljar/internal/logbook/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	logbooktest.Run(t, func(*testing.T) logbook.Book { return memory.New() })
}

// A million single bytes cost a few megabytes, not the hundreds that a slice of frames would.
func TestSmallFramesAreCheap(t *testing.T) {
	const frames = 1 << 20
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			log, err := memory.New().Create("run")
			if err != nil {
				b.Fatal(err)
			}
			one := belljar.Frame{Type: belljar.FrameStdout, Output: []byte("x")}
			for range frames {
				if err := log.Append(one); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	if got := result.AllocedBytesPerOp() / frames; got > 4 {
		t.Errorf("%d bytes of memory for a frame of one byte, want at most 4", got)
	}
}
