package stream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"sync"
)

// ahead reads ahead of its reader in its own goroutine, and computes the digest there.
type ahead struct {
	ctx    context.Context // the reader's context
	blocks chan block
	free   chan []byte
	stop   chan struct{}
	once   sync.Once
	gone   sync.WaitGroup
	sum    hash.Hash
	now    block
	rest   []byte
}

type block struct {
	data []byte
	err  error
}

// How far it reads ahead: number and size of blocks.
const (
	aheadBlocks = 4
	aheadBytes  = 256 << 10
)

// ReadAhead reads ahead of r, and calls end when it has stopped reading.
func ReadAhead(ctx context.Context, r io.Reader, end func() error) *ahead {
	a := &ahead{ctx: ctx, sum: sha256.New(), blocks: make(chan block, aheadBlocks), free: make(chan []byte, aheadBlocks), stop: make(chan struct{})}
	for range aheadBlocks {
		a.free <- make([]byte, aheadBytes)
	}
	a.gone.Go(func() {
		defer close(a.blocks)
		defer func() { _ = end() }() // ends the source
		for {
			var buf []byte
			select {
			case buf = <-a.free:
			case <-a.stop:
				return
			}
			n, err := fill(r, buf[:aheadBytes])
			a.sum.Write(buf[:n])
			select {
			case a.blocks <- block{buf[:n], err}:
			case <-a.stop:
				return
			}
			if err != nil {
				return
			}
		}
	})
	return a
}

// fill reads until a buffer is full or the reader has no more.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

func (a *ahead) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.data != nil {
			a.free <- a.now.data
		}
		select {
		case next, more := <-a.blocks:
			if a.now = next; !more {
				a.now.err = io.ErrClosedPipe
			}
		case <-a.ctx.Done():
			a.now = block{err: a.ctx.Err()}
		}
		a.rest = a.now.data
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// Digest returns the digest of all bytes, once Read has returned io.EOF.
func (a *ahead) Digest() string { return "sha256:" + hex.EncodeToString(a.sum.Sum(nil)) }

// Abandon ends the reading ahead after the current read, without waiting for it.
func (a *ahead) Abandon() { a.once.Do(func() { close(a.stop) }) }

// Close ends the reading ahead and waits for its end. The source must end without help.
func (a *ahead) Close() error {
	a.Abandon()
	a.gone.Wait()
	return nil
}
