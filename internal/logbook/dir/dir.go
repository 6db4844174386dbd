package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
)

// Options is how a book is opened.
type Options struct {
	Path   string       // the book's folder; made if there is none
	Logger *slog.Logger // logs of damage; nil is silence
}

// Book is a [logbook.Book] in a folder. No other process may use the folder.
type Book struct {
	path   string
	logger *slog.Logger

	names [64]sync.Mutex // by id: held while its file is made, found or removed

	mu      sync.Mutex
	closed  bool
	logs    map[string]*Log    // those that grow, and the last few sealed ones
	sealed  []*Log             // those of logs that are sealed, oldest first
	folders map[string]*folder // by shard
}

// remembered is how many sealed logs a book keeps at hand: the next reader of one needs not look for it.
const remembered = 128

// Open opens the book in a folder, which it makes if need be.
func Open(o Options) (*Book, error) {
	if o.Path == "" {
		return nil, errors.New("logbook: no folder given")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.Path, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of logs: %w", err)
	}
	return &Book{path: o.Path, logger: o.Logger, logs: map[string]*Log{}, folders: map[string]*folder{}}, nil
}

// Create begins the log of id.
func (b *Book) Create(id string) (logbook.Log, error) {
	if !belljar.ValidID(id) {
		return nil, fmt.Errorf("log %q: not an id", id)
	}
	name := b.name(id)
	name.Lock()
	defer name.Unlock()
	if _, err := b.known(id); err != nil {
		return nil, err
	}
	path := b.file(id)
	f, err := create(path)
	if errors.Is(err, fs.ErrExist) {
		return nil, logbook.ErrExists
	}
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	l := &Log{book: b, id: id, path: path, codec: newCodec(), file: f}
	if err := b.keep(l); err != nil {
		f.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return l, nil
}

// create makes a file, and its folder if there is none.
func create(path string) (f *os.File, err error) {
	for range 100 { // Remove may take the empty folder away again
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, err
}

// Open finds the log of id. A sealed one costs a look at the two ends of its file; any other is read through.
func (b *Book) Open(id string) (logbook.Log, error) {
	if !belljar.ValidID(id) {
		return nil, logbook.ErrNotFound
	}
	if l, err := b.known(id); l != nil || err != nil {
		return l.orNil(), err
	}
	name := b.name(id)
	name.Lock()
	defer name.Unlock()
	if l, err := b.known(id); l != nil || err != nil {
		return l.orNil(), err
	}
	l, err := b.load(id)
	if err != nil {
		return nil, err
	}
	if err := b.keep(l); err != nil {
		l.leave()
		return nil, err
	}
	if l.now.sealed {
		b.remember(l)
	}
	return l, nil
}

// orNil is l as an interface that is nil if l is.
func (l *Log) orNil() logbook.Log {
	if l == nil {
		return nil
	}
	return l
}

// Remove drops the log of id, if there is one.
func (b *Book) Remove(id string) error {
	if !belljar.ValidID(id) {
		return nil
	}
	name := b.name(id)
	name.Lock()
	defer name.Unlock()
	b.mu.Lock()
	delete(b.logs, id)
	b.mu.Unlock()
	if err := os.Remove(b.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a log: %w", err)
	}
	b.prune(shard(id))
	return nil
}

// prune removes the folder of a shard, if it is empty, and the day's.
func (b *Book) prune(shard string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; shard != "."; shard = filepath.Dir(shard) {
		if os.Remove(filepath.Join(b.path, shard)) != nil {
			return
		}
		delete(b.folders, shard)
	}
}

// Close ends all use of the book. Logs that grow stay unsealed, their readers get an error. It may be called twice.
func (b *Book) Close() error {
	b.mu.Lock()
	b.closed = true
	logs := b.logs
	b.logs, b.sealed = nil, nil
	b.mu.Unlock()
	for _, l := range logs {
		l.leave()
	}
	return nil
}

// name is the lock of an id.
func (b *Book) name(id string) *sync.Mutex {
	h := uint32(2166136261) // FNV-1a
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return &b.names[h%uint32(len(b.names))]
}

// file is where the log of id lies.
func (b *Book) file(id string) string { return filepath.Join(b.path, shard(id), id+suffix) }

// known returns the log of id if it is at hand.
func (b *Book) known(id string) (*Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("logbook: %w", os.ErrClosed)
	}
	return b.logs[id], nil
}

// keep has a log at hand.
func (b *Book) keep(l *Log) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("logbook: %w", os.ErrClosed)
	}
	b.logs[l.id] = l
	return nil
}

// remember notes that a log is sealed: the oldest of those need not stay at hand.
func (b *Book) remember(l *Log) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.logs[l.id] != l {
		return // removed
	}
	b.sealed = append(b.sealed, l)
	if len(b.sealed) > remembered {
		oldest := b.sealed[0]
		b.sealed[0] = nil
		b.sealed = b.sealed[1:]
		if b.logs[oldest.id] == oldest {
			delete(b.logs, oldest.id)
		}
	}
}

// folder is that of id.
func (b *Book) folder(id string) *folder {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := shard(id)
	f, ok := b.folders[at]
	if !ok {
		f = &folder{path: filepath.Join(b.path, at)}
		for parent := at; parent != "."; {
			parent = filepath.Dir(parent)
			f.parents = append(f.parents, filepath.Join(b.path, parent))
		}
		b.folders[at] = f
	}
	return f
}
