package dir

import (
	"cmp"
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

// Options configure a book.
type Options struct {
	Path   string       // the book's folder; created if missing
	Logger *slog.Logger // logs damage; nil discards
}

// Book is a [logbook.Book] in a folder. No other process may use the folder.
type Book struct {
	path   string
	logger *slog.Logger

	names [64]sync.Mutex // locks by id, held while the id's file is created, opened or removed

	mu      sync.Mutex
	closed  bool
	logs    map[string]*Log    // cache: unsealed logs and the most recent sealed ones
	sealed  []*Log             // the sealed logs of the cache, oldest first
	folders map[string]*folder // by shard
}

// maxSealed is the number of sealed logs in a book's cache.
const maxSealed = 128

// Open opens the book in a folder, and creates the folder if it is missing.
func Open(o Options) (*Book, error) {
	if o.Path == "" {
		return nil, errors.New("logbook: no folder given")
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
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
	name := b.nameLock(id)
	name.Lock()
	defer name.Unlock()
	if _, err := b.cached(id); err != nil {
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

// create creates a file, and its folder if it is missing.
func create(path string) (f *os.File, err error) {
	for range 100 { // Remove may remove the empty folder concurrently
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

// Open finds the log of id. It reads only the two ends of a sealed log's file, and the whole file of any other.
func (b *Book) Open(id string) (logbook.Log, error) {
	if !belljar.ValidID(id) {
		return nil, logbook.ErrNotFound
	}
	if l, err := b.cached(id); l != nil || err != nil {
		return l.orNil(), err
	}
	name := b.nameLock(id)
	name.Lock()
	defer name.Unlock()
	if l, err := b.cached(id); l != nil || err != nil {
		return l.orNil(), err
	}
	l, err := b.load(id)
	if err != nil {
		return nil, err
	}
	sealed := l.now.sealed // the cache may share it afterwards
	if err := b.keep(l); err != nil {
		l.leave()
		return nil, err
	}
	if sealed {
		b.evict(l)
	}
	return l, nil
}

// orNil returns l as an interface that is nil if l is nil.
func (l *Log) orNil() logbook.Log {
	if l == nil {
		return nil
	}
	return l
}

// Remove removes the log of id, if there is one.
func (b *Book) Remove(id string) error {
	if !belljar.ValidID(id) {
		return nil
	}
	name := b.nameLock(id)
	name.Lock()
	defer name.Unlock()
	b.mu.Lock()
	l := b.logs[id]
	delete(b.logs, id)
	b.mu.Unlock()
	if l != nil {
		l.end(func(v *view) { v.sealed = true }) // also closes its file
	}
	if err := os.Remove(b.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a log: %w", err)
	}
	b.prune(shard(id))
	return nil
}

// prune removes a shard's folder and its day's, if they are empty.
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

// Close closes the book. Open logs stay unsealed; their readers get an error. It may be called twice.
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

// nameLock returns the lock of an id.
func (b *Book) nameLock(id string) *sync.Mutex {
	h := uint32(2166136261) // FNV-1a
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return &b.names[h%uint32(len(b.names))]
}

// file returns the path of the log of id.
func (b *Book) file(id string) string { return filepath.Join(b.path, shard(id), id+suffix) }

// cached returns the log of id if it is in the cache.
func (b *Book) cached(id string) (*Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("logbook: %w", os.ErrClosed)
	}
	return b.logs[id], nil
}

// keep adds a log to the cache.
func (b *Book) keep(l *Log) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("logbook: %w", os.ErrClosed)
	}
	b.logs[l.id] = l
	return nil
}

// evict records that a log is sealed and drops the oldest sealed log from a full cache.
func (b *Book) evict(l *Log) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.logs[l.id] != l {
		return // removed
	}
	b.sealed = append(b.sealed, l)
	if len(b.sealed) > maxSealed {
		oldest := b.sealed[0]
		b.sealed[0] = nil
		b.sealed = b.sealed[1:]
		if b.logs[oldest.id] == oldest {
			delete(b.logs, oldest.id)
		}
	}
}

// folder returns the folder of id.
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
