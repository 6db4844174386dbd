package dir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
)

// sample returns one frame of each type.
func sample() []belljar.Frame {
	return []belljar.Frame{
		{Type: belljar.FrameEvent, Event: belljar.EventStart, Data: map[string]any{"phase": "running"}},
		{Type: belljar.FrameStdout, Output: []byte("hello\n")},
		{Type: belljar.FrameStderr, Output: []byte{0, 255}},
		{Type: belljar.FrameHeartbeat, Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)},
		{Type: belljar.FrameTruncated, Reason: "log_cap"},
		{Type: belljar.FrameStdout},
		{Type: belljar.FrameEvent, Event: belljar.EventEnd},
	}
}

func numbered(frames []belljar.Frame) []belljar.Frame {
	for i := range frames {
		frames[i].Seq = uint64(i + 1)
	}
	return frames
}

// written returns the file of a log with these frames, and the end offset of each record.
func written(t testing.TB, seal bool, frames ...belljar.Frame) (file []byte, ends []int) {
	t.Helper()
	book := openBook(t, t.TempDir())
	log := must(book.Create("run"))
	for _, f := range frames {
		check(t, log.Append(f))
		ends = append(ends, int(must(os.Stat(book.file("run"))).Size()))
	}
	if seal {
		check(t, log.Seal())
	}
	return must(os.ReadFile(book.file("run"))), ends
}

// found opens a book with file as its only log.
func found(t testing.TB, file []byte) *Book {
	t.Helper()
	path := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(path, timeless), 0o700))
	check(t, os.WriteFile(filepath.Join(path, timeless, "run.log"), file, 0o600))
	return openBook(t, path)
}

func openBook(t testing.TB, path string) *Book {
	t.Helper()
	book, err := Open(Options{Path: path})
	check(t, err)
	t.Cleanup(func() { book.Close() })
	return book
}

func frames(t testing.TB, log logbook.Log) (list []belljar.Frame) {
	t.Helper()
	for f, err := range log.Read(t.Context(), 1) {
		check(t, err)
		list = append(list, f)
	}
	return list
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Wherever a crash truncates a file, complete records are recovered and the log continues after them.
func TestTorn(t *testing.T) {
	want := numbered(sample())
	for _, sealed := range []bool{false, true} {
		file, ends := written(t, sealed, sample()...)
		for n := range file {
			whole := 0
			for _, end := range ends {
				if end <= n {
					whole++
				}
			}
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				book := found(t, file[:n])
				log := must(book.Open("run"))
				if got := log.Last(); got != uint64(whole) {
					t.Fatalf("cut at %d: last is %d, want %d", n, got, whole)
				}
				check(t, log.Append(belljar.Frame{Type: belljar.FrameStdout, Output: []byte("next")}))
				check(t, log.Seal())
				check(t, book.Close())
				got := frames(t, must(openBook(t, book.path).Open("run")))
				next := belljar.Frame{Seq: uint64(whole + 1), Type: belljar.FrameStdout, Output: []byte("next")}
				if !reflect.DeepEqual(got, append(want[:whole:whole], next)) {
					t.Errorf("cut at %d: %+v", n, got)
				}
			})
		}
	}
}

// Whichever bit flips, the log returns a prefix of the written frames.
func TestDamaged(t *testing.T) {
	want := numbered(sample())
	for _, sealed := range []bool{false, true} {
		file, ends := written(t, sealed, sample()...)
		for n := range file {
			damaged := bytes.Clone(file)
			damaged[n] ^= 1 << (n % 8)
			log, err := found(t, damaged).Open("run")
			if err != nil {
				if n == 4 {
					continue // another version
				}
				t.Fatalf("byte %d: %v", n, err)
			}
			whole := 0
			for _, end := range ends {
				if end <= n {
					whole++
				}
			}
			if n < headSize {
				whole = 0
			}
			if !sealed || n < headSize || n >= ends[len(ends)-1] { // otherwise the log still counts as sealed
				check(t, log.Seal())
			}
			got := frames(t, log)
			if len(got) == 0 && whole == 0 {
				continue
			}
			if !reflect.DeepEqual(got, want[:whole]) {
				t.Fatalf("byte %d: %d frames, want %d", n, len(got), whole)
			}
		}
	}
}

// Reading a damaged log does not change the file, and logs the damage once.
func TestDamageIsReported(t *testing.T) {
	file, ends := written(t, true, sample()...)
	file[ends[2]+recordHead] ^= 1
	var out bytes.Buffer
	book := found(t, file)
	book.logger = slog.New(slog.NewTextHandler(&out, nil))
	log := must(book.Open("run"))
	for range 3 {
		if got := frames(t, log); len(got) != 3 {
			t.Fatalf("%d frames, want 3", len(got))
		}
	}
	if n := strings.Count(out.String(), "log is damaged"); n != 1 || !strings.Contains(out.String(), "frames=3") {
		t.Errorf("logged %d times: %s", n, out.String())
	}
	if got := must(os.ReadFile(book.file("run"))); !bytes.Equal(got, file) {
		t.Error("reading changed the file")
	}
}

// A program may know the format and the offset of its output, but not the salt.
func TestSealCannotBePrinted(t *testing.T) {
	book := openBook(t, t.TempDir())
	log := must(book.Create("run"))
	at := int64(headSize + recordHead)
	forged := saltedCodec([8]byte{}).appendSeal(nil, 0, at)
	check(t, log.Append(belljar.Frame{Type: belljar.FrameStdout, Output: forged}))
	check(t, book.Close())
	log = must(openBook(t, book.path).Open("run"))
	if got := log.Last(); got != 1 {
		t.Errorf("last is %d, want 1", got)
	}
	check(t, log.Append(belljar.Frame{Type: belljar.FrameStdout}))
}

func TestNewerFormatIsLeftAlone(t *testing.T) {
	file, _ := written(t, true, sample()...)
	file[4] = 2
	book := found(t, file)
	if _, err := book.Open("run"); err == nil || errors.Is(err, logbook.ErrNotFound) {
		t.Errorf("Open: %v", err)
	}
	if got := must(os.ReadFile(book.file("run"))); !bytes.Equal(got, file) {
		t.Error("the file changed")
	}
}

func TestBadIDs(t *testing.T) {
	book := openBook(t, t.TempDir())
	for _, id := range []string{"", "..", "a/b", "A", "a\x00", strings.Repeat("a", 65)} {
		if _, err := book.Create(id); err == nil {
			t.Errorf("Create(%q) succeeds", id)
		}
		if _, err := book.Open(id); !errors.Is(err, logbook.ErrNotFound) {
			t.Errorf("Open(%q): %v", id, err)
		}
		check(t, book.Remove(id))
	}
}

func TestLayout(t *testing.T) {
	book := openBook(t, t.TempDir())
	const id = "0199a326-cc88-7abc-8def-0123456789ab" // 2025-10-02T04:20:53Z
	log := must(book.Create(id))
	check(t, log.Append(sample()...))
	file := filepath.Join(book.path, "2025-10-02", "04", id+".log")
	info := must(os.Stat(file))
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if mode := must(os.Stat(filepath.Dir(file))).Mode().Perm(); mode != 0o700 {
		t.Errorf("folder's mode %v", mode)
	}
	check(t, book.Remove(id))
	if left := must(os.ReadDir(book.path)); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	if err := log.Append(sample()...); !errors.Is(err, logbook.ErrSealed) || log.(*Log).file != nil {
		t.Errorf("removed, its file is %v, and Append says %v", log.(*Log).file, err)
	}
	check(t, log.Seal())
}

// A sealed log without readers holds no descriptor.
func TestDescriptors(t *testing.T) {
	book := openBook(t, t.TempDir())
	log := must(book.Create("run")).(*Log)
	check(t, log.Append(belljar.Frame{Type: belljar.FrameStdout, Output: make([]byte, 2*smallTail)}))
	check(t, log.Seal())
	for range 2 {
		if log.file != nil {
			t.Error("file is open")
		}
		for range log.Read(t.Context(), 1) {
			if log.file == nil {
				t.Error("file is closed under a reader")
			}
		}
	}
	book = openBook(t, book.path)
	if log := must(book.Open("run")).(*Log); log.file != nil {
		t.Error("file is open after Open")
	}
}

func TestOrphans(t *testing.T) {
	book := openBook(t, t.TempDir())
	old := time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	ids := []string{"a", "b", "c", "d", "0199a326-cc88-7abc-8def-0123456789ab"}
	for _, id := range ids {
		log := must(book.Create(id))
		if id != "b" {
			check(t, log.Seal())
		}
		if id != "c" {
			check(t, os.Chtimes(book.file(id), old, old))
		}
	}
	check(t, os.WriteFile(filepath.Join(book.path, timeless, "notes.txt"), nil, 0o600))
	known := func(id string) bool { return id == "d" }
	got := must(book.Orphans(old.Add(time.Hour), known))
	if want := []string{"a"}; !reflect.DeepEqual(got, want) { // the time in the other id is later than t
		t.Errorf("orphans %v, want %v", got, want)
	}
	got = must(book.Orphans(time.Date(2025, 10, 3, 0, 0, 0, 0, time.UTC), known))
	if want := []string{ids[4], "a"}; !reflect.DeepEqual(got, want) {
		t.Errorf("orphans %v, want %v", got, want)
	}
}

// Close ends waiting readers and refuses writes.
func TestClose(t *testing.T) {
	book := openBook(t, t.TempDir())
	log := must(book.Create("run"))
	check(t, log.Append(sample()[1]))
	var last error
	for _, err := range log.Read(t.Context(), 1) {
		if err == nil {
			check(t, book.Close())
		}
		last = err
	}
	if !errors.Is(last, fs.ErrClosed) {
		t.Errorf("reader ended with %v", last)
	}
	if err := log.Append(sample()[1]); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Append: %v", err)
	}
	if _, err := book.Open("run"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Open: %v", err)
	}
	check(t, book.Close())
}

// Large and small appends, with readers from any frame, exceed the part in memory.
func TestTail(t *testing.T) {
	book := openBook(t, t.TempDir())
	log := must(book.Create("run")).(*Log)
	var want [][]byte
	seed := uint32(1)
	for i := range 400 {
		seed = seed*1664525 + 1013904223
		size := int(seed>>16) % 9000
		if i%97 == 0 {
			size = 2 * lastSegment
		}
		out := bytes.Repeat([]byte{byte(i)}, size)
		want = append(want, out)
		f := []belljar.Frame{{Type: belljar.FrameStdout, Output: out}}
		if i%5 == 0 {
			name := strings.Repeat("n", size%3000)
			f = append(f, belljar.Frame{Type: belljar.FrameEvent, Event: name})
			want = append(want, []byte(name))
		}
		check(t, log.Append(f...))
		kept := int64(0)
		for i, s := range log.now.tail {
			if i > 0 && s.base <= log.now.tail[i-1].base {
				t.Fatal("segments out of order")
			}
			kept += int64(len(s.buf))
		}
		if kept > 3*lastSegment {
			t.Fatalf("%d bytes in memory", kept)
		}
		from := uint64(len(want)) - uint64(i)%40
		if i%10 == 0 {
			n := from
			for f, err := range log.Read(t.Context(), from) {
				check(t, err)
				if f.Seq != n || string(f.Output)+f.Event != string(want[n-1]) {
					t.Fatalf("frame %d is %d", n, f.Seq)
				}
				if n++; n > uint64(len(want)) {
					break
				}
			}
		}
	}
	check(t, log.Seal())
	if len(log.marks) < 20 {
		t.Errorf("%d marks", len(log.marks))
	}
	for i, f := range frames(t, log) {
		if string(f.Output)+f.Event != string(want[i]) {
			t.Fatalf("frame %d differs", f.Seq)
		}
	}
}
