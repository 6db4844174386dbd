package service_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/blob"
)

// blobs stores bytes in memory.
type blobs struct {
	mu   sync.Mutex
	held map[blob.Key][]byte
	fail error // returned by Put
	slip error // returned by Sync
}

func newBlobs() *blobs { return &blobs{held: map[blob.Key][]byte{}} }

func (b *blobs) Put(_ context.Context, k blob.Key, r io.Reader) (blob.Info, error) {
	raw, err := io.ReadAll(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		err = b.fail
	}
	if err != nil {
		return blob.Info{}, err
	}
	b.held[k] = raw
	return blob.Info{Size: int64(len(raw)), Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(raw))}, nil
}

func (b *blobs) Sync(context.Context, string, string) error { return b.slip }

func (b *blobs) Open(_ context.Context, k blob.Key, offset int64) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	raw, ok := b.held[k]
	if !ok {
		return nil, blob.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(raw[offset:])), nil
}

func (b *blobs) Delete(_ context.Context, userID, runID string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.held {
		if k.UserID == userID && k.RunID == runID {
			delete(b.held, k)
		}
	}
	return nil
}

func (b *blobs) Orphans(_ context.Context, _ time.Time, known func(string) bool) ([]blob.Key, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []blob.Key
	for k := range b.held {
		if !known(k.RunID) {
			list = append(list, blob.Key{UserID: k.UserID, RunID: k.RunID})
		}
	}
	return list, nil
}

func (b *blobs) Close() error { return nil }

// count returns the number of blobs.
func (b *blobs) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held)
}
