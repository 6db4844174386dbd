package dir

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/belljar/belljar"
)

func BenchmarkAppend(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"32KiB", 32 << 10}, {"100B", 100}} {
		b.Run(size.name, func(b *testing.B) {
			book := openBook(b, b.TempDir())
			log := must(book.Create("run"))
			one := []belljar.Frame{{Type: belljar.FrameStdout, Output: make([]byte, size.bytes)}}
			b.SetBytes(int64(size.bytes))
			b.ReportAllocs()
			written := 0
			for b.Loop() {
				check(b, log.Append(one...))
				if written += size.bytes; written > 1<<30 { // limit the space on the disk
					b.StopTimer()
					check(b, book.Remove("run"))
					log, written = must(book.Create("run")), 0
					b.StartTimer()
				}
			}
		})
	}
}

// A complete small run: create, four frames, seal.
func BenchmarkSmallRun(b *testing.B) {
	small := func(book *Book, seal bool) {
		log := must(book.Create(belljar.NewID()))
		for _, f := range sample()[:4] {
			check(b, log.Append(f))
		}
		if seal {
			check(b, log.Seal())
		} else {
			check(b, log.(*Log).finish())
			log.(*Log).retire()
		}
	}
	b.Run("without sync", func(b *testing.B) {
		book := openBook(b, b.TempDir())
		b.ReportAllocs()
		for b.Loop() {
			small(book, false)
		}
	})
	b.Run("durable", func(b *testing.B) {
		book := openBook(b, b.TempDir())
		b.ReportAllocs()
		for b.Loop() {
			small(book, true)
		}
	})
	b.Run("durable, 8 at once", func(b *testing.B) {
		book := openBook(b, b.TempDir())
		b.SetParallelism(4)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				small(book, true)
			}
		})
	})
}

func BenchmarkOpenSealed(b *testing.B) {
	book := openBook(b, b.TempDir())
	log := must(book.Create("run"))
	check(b, log.Append(sample()...))
	check(b, log.Seal())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := book.load("run"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	book := openBook(b, b.TempDir())
	log := must(book.Create("run"))
	output := make([]byte, 32<<10)
	for range 2000 {
		check(b, log.Append(belljar.Frame{Type: belljar.FrameStdout, Output: output}))
	}
	check(b, log.Seal())
	b.SetBytes(2000 * 32 << 10)
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range log.Read(b.Context(), 1) {
			check(b, err)
		}
	}
}

// A thousand readers, at the end or slow, cost little and do not delay the writer.
func TestPlainThousandReaders(t *testing.T) {
	const readers, frames = 1000, 64
	book := openBook(t, t.TempDir())
	log := must(book.Create("run"))
	output := make([]byte, 32<<10)
	one := belljar.Frame{Type: belljar.FrameStdout, Output: output}
	for range frames / 2 {
		check(t, log.Append(one))
	}
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var begun, done sync.WaitGroup
	begun.Add(readers)
	hold := make(chan struct{})
	for i := range readers {
		done.Go(func() {
			n := 0
			for _, err := range log.Read(ctx, 1) {
				if err != nil {
					t.Errorf("reader: %v", err)
					return
				}
				if n++; n == 1+i%(frames/2) {
					begun.Done()
					<-hold // each at another position in the log
				}
			}
			if n != frames {
				t.Errorf("%d frames, want %d", n, frames)
			}
		})
	}
	begun.Wait()
	runtime.GC() // measure live memory only
	runtime.ReadMemStats(&during)
	if got := int64(during.HeapInuse+during.StackInuse) - int64(before.HeapInuse+before.StackInuse); got > 120<<20 {
		t.Errorf("%d readers take %d MiB", readers, got>>20)
	} else {
		t.Logf("%d readers take %d MiB", readers, got>>20)
	}
	close(hold)
	for range frames / 2 {
		check(t, log.Append(one))
	}
	check(t, log.Seal())
	done.Wait()
}
