package dir_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/logbook/dir"
	"github.com/belljar/belljar/internal/logbook/logbooktest"
)

// drafts is a book whose logs all begin as drafts.
type drafts struct{ *dir.Book }

func (d drafts) Create(id string) (logbook.Log, error) { return d.Draft(id) }

// keptDrafts are drafts that were kept at once.
type keptDrafts struct{ *dir.Book }

func (d keptDrafts) Create(id string) (logbook.Log, error) {
	log, err := d.Draft(id)
	if err != nil {
		return nil, err
	}
	return log, log.(logbook.Draft).Keep()
}

func TestDraftConformance(t *testing.T) {
	logbooktest.Run(t, func(t *testing.T) logbook.Book { return drafts{open(t, t.TempDir())} })
}

func TestKeptDraftsAreDurable(t *testing.T) {
	logbooktest.Durable(t, func(t *testing.T) (logbook.Book, func() logbook.Book) {
		path := t.TempDir()
		book := open(t, path)
		return keptDrafts{book}, func() logbook.Book {
			if err := book.Close(); err != nil {
				t.Fatal(err)
			}
			book = open(t, path)
			return keptDrafts{book}
		}
	})
}

func printed(b string) belljar.Frame {
	return belljar.Frame{Type: belljar.FrameStdout, Output: []byte(b)}
}

// files counts what lies in a book's folder.
func files(t *testing.T, path string) (n int) {
	t.Helper()
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// text is what a log, read from its first frame to its end, printed.
func text(t *testing.T, log logbook.Log) string {
	t.Helper()
	var b bytes.Buffer
	next := uint64(1)
	for f, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Seq != next {
			t.Fatalf("frame %d, want %d", f.Seq, next)
		}
		next++
		b.Write(f.Output)
	}
	return b.String()
}

// TestDraft: a draft has no file until it is kept, sealed or too large for memory, and then all of it is there.
func TestDraft(t *testing.T) {
	large := string(bytes.Repeat([]byte("0123456789abcdef"), 8<<10)) // twice what a draft may have
	for name, test := range map[string]struct {
		write func(log logbook.Draft) error
		kept  int // files before the seal
		want  string
	}{
		"sealed": {func(log logbook.Draft) error { return log.Append(printed("a"), printed("b")) }, 0, "ab"},
		"empty":  {func(log logbook.Draft) error { return nil }, 0, ""},
		"kept": {func(log logbook.Draft) error {
			return errors.Join(log.Append(printed("a")), log.Keep(), log.Keep(), log.Append(printed("b")))
		}, 1, "ab"},
		"kept empty": {func(log logbook.Draft) error { return errors.Join(log.Keep(), log.Append(printed("b"))) }, 1, "b"},
		"large": {func(log logbook.Draft) error {
			return errors.Join(log.Append(printed("a")), log.Append(printed(large)), log.Append(printed("b")))
		}, 1, "a" + large + "b"},
		"grown": {func(log logbook.Draft) (err error) {
			for i := 0; i < len(large) && err == nil; i += 1 << 10 {
				err = log.Append(printed(large[i : i+1<<10]))
			}
			return err
		}, 1, large},
	} {
		t.Run(name, func(t *testing.T) {
			path, id := t.TempDir(), belljar.NewID()
			book := open(t, path)
			made, err := book.Draft(id)
			if err != nil {
				t.Fatal(err)
			}
			log := made.(logbook.Draft)
			following := make(chan string, 1)
			go func() { following <- text(t, log) }()
			if err := test.write(log); err != nil {
				t.Fatal(err)
			}
			if n := files(t, path); n != test.kept {
				t.Errorf("%d files before the seal, want %d", n, test.kept)
			}
			if err := errors.Join(log.Seal(), log.Seal()); err != nil {
				t.Fatal(err)
			}
			if err := log.Append(printed("late")); !errors.Is(err, logbook.ErrSealed) {
				t.Errorf("append after the seal: %v", err)
			}
			if got := <-following; got != test.want {
				t.Errorf("a follower read %d bytes, want %d", len(got), len(test.want))
			}
			if got := text(t, log); got != test.want {
				t.Errorf("read %d bytes, want %d", len(got), len(test.want))
			}
			if err := book.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := open(t, path).Open(id)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(t, again); got != test.want {
				t.Errorf("read %d bytes from the file, want %d", len(got), len(test.want))
			}
		})
	}
}

// TestDraftsAreLogs: a draft is found by its id, there is one of it, and it goes with its book or by Remove.
func TestDraftsAreLogs(t *testing.T) {
	path, id := t.TempDir(), belljar.NewID()
	book := open(t, path)
	log, err := book.Draft(id)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := book.Open(id); err != nil || found != log {
		t.Errorf("found %v, %v", found, err)
	}
	for _, again := range []func(string) (logbook.Log, error){book.Draft, drafts{book}.Create} {
		if _, err := again(id); !errors.Is(err, logbook.ErrExists) {
			t.Errorf("made again: %v", err)
		}
	}
	if _, err := book.Draft("../x"); err == nil {
		t.Error("a draft of no id")
	}
	if err := book.Remove(id); err != nil {
		t.Error(err)
	}
	if _, err := book.Open(id); !errors.Is(err, logbook.ErrNotFound) {
		t.Errorf("found after its removal: %v", err)
	}
	other, err := book.Draft(belljar.NewID())
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Append(printed("x")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("append after the book's end: %v", err)
	}
	if err := other.Seal(); err == nil {
		t.Error("sealed after the book's end")
	}
	if n := files(t, path); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

// TestTake: a draft that is taken is read by those who have it, and nowhere else.
func TestTake(t *testing.T) {
	path, id := t.TempDir(), belljar.NewID()
	book := open(t, path)
	begun, err := book.Draft(id)
	if err != nil {
		t.Fatal(err)
	}
	log := begun.(logbook.Draft)
	if err := log.Append(printed("a"), belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventEnd}); err != nil {
		t.Fatal(err)
	}
	following := make(chan string, 1)
	go func() { following <- text(t, log) }()
	if _, taken := log.Take(10); taken {
		t.Fatal("took more than was wanted")
	}
	frames, taken := log.Take(1 << 10)
	if !taken || len(frames) != 2 || string(frames[0].Output) != "a" || frames[1].Event != belljar.EventEnd || frames[1].Seq != 2 {
		t.Fatalf("took %v, %v", frames, taken)
	}
	if got := <-following + text(t, log); got != "aa" {
		t.Errorf("read %q", got)
	}
	if err := log.Append(printed("late")); !errors.Is(err, logbook.ErrSealed) {
		t.Errorf("append after the take: %v", err)
	}
	if err := errors.Join(log.Seal(), log.Keep()); err != nil {
		t.Error(err)
	}
	if _, taken := log.Take(1 << 10); taken {
		t.Error("taken twice")
	}
	if _, err := book.Open(id); !errors.Is(err, logbook.ErrNotFound) {
		t.Errorf("found after it was taken: %v", err)
	}
	kept, err := book.Draft(belljar.NewID())
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.(logbook.Draft).Keep(); err != nil {
		t.Fatal(err)
	}
	if _, taken := kept.(logbook.Draft).Take(1 << 10); taken {
		t.Error("took one that was kept")
	}
	if n := files(t, path); n != 1 {
		t.Errorf("%d files", n)
	}
}
