package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
	"gvisor.dev/gvisor/pkg/sentry/usage"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

func TestLimitOf(t *testing.T) {
	for text, want := range map[string]struct {
		limit uint64
		fails bool
	}{
		`{"annotations": {"belljar.memory":"0000000000067108864 0000000000067108864"}}`: {limit: 64 << 20},
		`{"annotations": {"other": "1"}}`:                                               {},
		`{}`:                                                                            {},
		`{"annotations": {"belljar.memory":"0000000000000000000 0000000000000000000"}}`:  {fails: true},
		`{"annotations": {"belljar.memory":"0000000000067108864 0000000000067108865"}}`:  {fails: true},
		`{"annotations": {"belljar.memory":"0000000000067108864 0000000000067108864 "}}`: {fails: true},
		`{"annotations": {"belljar.memory" :"0000000000067108864 0000000000067108864"}}`: {fails: true},
		`{"annotations": {"belljar.memory":""}}`:                                         {fails: true},
		`{"annotations": {"belljar.memory":"67108864"}}`:                                 {fails: true},
		`{"annotations": {"belljar.memory":"000000000000000064m 000000000000000064m"}}`:  {fails: true},
		`{"annotations": {"belljar.memory":"-000000000000000001 -000000000000000001"}}`:  {fails: true},
		`no configuration`: {fails: true},
		``:                 {fails: true},
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"runsc-sandbox", "boot", fmt.Sprintf("--spec-fd=%d", file.Fd()), "box"},
			{"runsc-sandbox", "boot", "-spec-fd", fmt.Sprint(file.Fd()), "box"},
		} {
			var limit uint64
			l, err := limitOf(args)
			if l != nil {
				limit = l.bytes()
			}
			if limit != want.limit || (err != nil) != want.fails {
				t.Errorf("%q, %s: %d, %v", args, text, limit, err)
			}
			at, err := file.Seek(0, io.SeekCurrent)
			if at != 0 || err != nil {
				t.Errorf("the kernel would read %s from %d on, %v", text, at, err)
			}
		}
	}
	for _, args := range [][]string{{"runsc-sandbox", "boot"}, {"runsc-sandbox", "boot", "--spec-fd=x"}, {"runsc-sandbox", "boot", "--spec-fd"}} {
		if err := limitMemory(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	if err := limitMemory([]string{"belljar-runsc", "run"}); err != nil {
		t.Error(err)
	}
}

// The host can write another limit, and a half-written one is ignored.
func TestLimitChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	const head = `{"annotations":{"belljar.memory":"`
	if err := os.WriteFile(path, []byte(head+`0000000000067108864 0000000000067108864"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l, err := mapLimit(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want uint64
	}{
		{"0000000000134217728 0000000000067108864", 64 << 20},
		{"0000000000134217728 0000000000134217728", 128 << 20},
		{"0000000000134217728 0000000000034217728", 128 << 20},
		{"0000000000008388608 0000000000008388608", 8 << 20},
	} {
		if _, err := file.WriteAt([]byte(c.text), int64(len(head))); err != nil {
			t.Fatal(err)
		}
		if got := l.bytes(); got != c.want {
			t.Errorf("%s: %d, want %d", c.text, got, c.want)
		}
	}
}

func TestPause(t *testing.T) {
	for left, want := range map[uint64]time.Duration{0: quickLook, 1: quickLook, 64 << 20: time.Second / 128, 1 << 62: slowLook, fastest: slowLook} {
		if got := pause(left); got != want {
			t.Errorf("with %d bytes left: %v, want %v", left, got, want)
		}
	}
}

// A memory file system is recognised by its form; another form is refused.
func TestCountAsPrograms(t *testing.T) {
	type fs struct {
		vfs.FilesystemImpl
		usage usage.MemoryKind
	}
	ours := &fs{usage: usage.Tmpfs}
	if err := countAsPrograms(ours); err != nil || ours.usage != usage.Anonymous {
		t.Errorf("%v, %v", ours.usage, err)
	}
	type without struct{ vfs.FilesystemImpl }
	type another struct {
		vfs.FilesystemImpl
		usage int
	}
	for _, other := range []vfs.FilesystemImpl{&without{}, without{}, &another{}, nil} {
		if err := countAsPrograms(other); err == nil {
			t.Errorf("%T is taken for one", other)
		}
	}
}

// A parked watch is woken once, and a watch that is awake is not.
func TestWatchIsCalled(t *testing.T) {
	w := &watch{start: time.Now(), wake: make(chan struct{}, 1)}
	w.due.Store(int64(time.Hour))
	w.runs(context.Background(), false)
	if len(w.wake) != 0 {
		t.Error("called while awake")
	}
	w.parked.Store(true)
	w.runs(context.Background(), false)
	w.runs(context.Background(), false)
	if len(w.wake) != 1 || w.parked.Load() {
		t.Errorf("%d calls, parked: %v", len(w.wake), w.parked.Load())
	}
}

// A kernel that has released its memory is already ending, and not because of memory.
func TestMemoryIsReleased(t *testing.T) {
	if err := usage.Init(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "memory")
	memory, err := pgalloc.NewMemoryFile(file, pgalloc.MemoryFileOpts{})
	if err != nil {
		t.Fatal(err)
	}
	k := &kernel.Kernel{}
	k.SetMemoryFile(memory)
	l := &limit{}
	l.last.Store(64 << 20)
	w := &watch{limit: l, start: time.Now()}
	w.kernel.Store(k)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if left, total := w.look(); left != 64<<20 || total != 0 {
		t.Errorf("%d bytes of %d left", left, total)
	}
}
