package dir_test

import (
	"os"
	"testing"

	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/logbook/dir"
	"github.com/belljar/belljar/internal/logbook/logbooktest"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func TestConformance(t *testing.T) {
	logbooktest.Run(t, func(t *testing.T) logbook.Book { return open(t, t.TempDir()) })
}

func TestDurable(t *testing.T) {
	logbooktest.Durable(t, func(t *testing.T) (logbook.Book, func() logbook.Book) {
		path := t.TempDir()
		book := open(t, path)
		return book, func() logbook.Book {
			if err := book.Close(); err != nil {
				t.Fatal(err)
			}
			book = open(t, path)
			return book
		}
	})
}

func open(t testing.TB, path string) *dir.Book {
	t.Helper()
	book, err := dir.Open(dir.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	return book
}
