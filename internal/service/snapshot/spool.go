package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/archive"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/room"
	"github.com/belljar/belljar/internal/service/fault"
)

// digestPrefix begins a digest.
const digestPrefix = "sha256:"

func digestOf(sum hash.Hash) string { return digestPrefix + hex.EncodeToString(sum.Sum(nil)) }

// blobID returns the blob id of a digest's bytes.
func blobID(digest string) string { return strings.TrimPrefix(digest, digestPrefix) }

// spool is the checked archive of a workspace in an unnamed file, compressed if it will be stored.
type spool struct {
	archive.Tree
	digest string
	size   int64 // of the archive
	held   int64 // of the file
	frozen bool  // no program could change the workspace while it was read

	file  *os.File
	name  string // "" if it has none
	draft bool   // a draft of the blob store, which can store it without a copy
	leave func()
}

// spool receives the archive of a user that send writes, checks it, and compresses it if it will be stored. send reports whether it is consistent.
func (s *Snapshots) spool(ctx context.Context, user string, keep bool, send func(w io.Writer) (frozen bool, err error)) (*spool, error) {
	leave, err := s.turns.take(user)
	if err != nil {
		return nil, err
	}
	p := &spool{leave: leave}
	if err := p.create(s.opts, keep); err != nil {
		leave()
		return nil, fault.Record("make room for a snapshot", err)
	}
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		var err error
		p.frozen, err = send(&bounded{w: w, left: s.opts.rawBytes(), room: room.Watch{Check: s.roomOf(ctx, user)}}) // the copy does not count entries that it leaves out
		w.CloseWithError(err)
		sent <- err
	}()
	sum, count, held := sha256.New(), &counter{}, &counter{}
	hashed := newAside(sum)
	var to io.WriteCloser = plain{io.MultiWriter(p.file, held)}
	if keep {
		// With two encoders, a block is compressed while the next one is received.
		to, err = zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	}
	if err == nil {
		p.Tree, err = archive.CopyTree(ctx, io.MultiWriter(to, hashed, count), r, s.opts.archive())
		err = errors.Join(err, to.Close())
	}
	hashed.close()
	_ = r.CloseWithError(errStopped)
	if failed := <-sent; failed != nil && !errors.Is(failed, errStopped) {
		err = failed // it is the cause of the copy's error
	}
	if err != nil {
		p.close()
		if fault.Full(err) {
			err = fault.DiskFull(err)
		}
		if own, is := errors.AsType[*belljar.Error](err); is && own.Code == belljar.CodeTooLarge {
			own.Hint = fmt.Sprintf("a snapshot has at most %d MiB and %d files and folders: remove some, or ask the operator for more "+
				"(SANDBOX_SNAPSHOT_MAX_MB, SANDBOX_SNAPSHOT_MAX_FILES)", s.opts.MB, s.opts.Files)
		}
		return nil, err
	}
	p.digest, p.size, p.held = digestOf(sum), count.n, held.n
	return p, nil
}

// create creates the file: in the blob store if it will be stored there without a copy.
func (p *spool) create(o Options, keep bool) (err error) {
	if d, can := o.Blobs.(blob.Drafter); can && keep {
		if p.file, err = d.Draft(); err == nil {
			p.draft = true
			return nil
		}
	}
	p.file, p.name, err = unnamed(o.TempDir)
	return err
}

// unnamed creates a file without a name; only Unix can remove an open file, so other systems keep the name until close.
func unnamed(dir string) (file *os.File, name string, err error) {
	if file, err = os.CreateTemp(dir, "belljar-snapshot-"); err == nil && os.Remove(file.Name()) != nil {
		name = file.Name()
	}
	return file, name, err
}

// received returns send with a file as a buffer. The programs of a workspace are paused until it is sent, and compressing it takes longer than that.
func (s *Snapshots) received(check func() error, send func(io.Writer) (bool, error)) func(io.Writer) (bool, error) {
	return func(w io.Writer) (frozen bool, err error) {
		raw, name, err := unnamed(s.opts.TempDir)
		if err != nil {
			return false, err
		}
		defer (&spool{file: raw, name: name, leave: func() {}}).close()
		if frozen, err = send(&bounded{w: raw, left: s.opts.rawBytes(), room: room.Watch{Check: check}}); err == nil {
			_, err = io.Copy(w, io.NewSectionReader(raw, 0, math.MaxInt64))
		}
		return frozen, err
	}
}

// headBytes is at least the overhead of each file in an archive, in bytes.
const headBytes = 4 << 10

// rawBytes bounds an archive that has not been checked yet.
func (o Options) rawBytes() int64 { return o.archive().Bytes + int64(o.archive().Files)*headBytes }

// roomOf returns the check of the disk for a user.
func (s *Snapshots) roomOf(ctx context.Context, user string) func() error {
	return func() error { return s.opts.Accounts.Room(ctx, user) }
}

// bounded refuses an archive that is too long, or for which the disk has no room: a sparse file is small until it is in an archive.
type bounded struct {
	w    io.Writer
	left int64
	room room.Watch
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, &belljar.Error{Code: belljar.CodeTooLarge, Message: "the workspace is larger than a snapshot may be"}
	}
	if err := b.room.Add(len(p)); err != nil {
		return 0, err
	}
	return b.w.Write(p)
}

// aside writes to w, which never fails, in the background.
type aside struct {
	blocks, free chan []byte
	done         chan struct{}
}

func newAside(w io.Writer) *aside {
	a := &aside{make(chan []byte, 2), make(chan []byte, 4), make(chan struct{})}
	go func() {
		defer close(a.done)
		for b := range a.blocks {
			_, _ = w.Write(b)
			a.free <- b[:0]
		}
	}()
	return a
}

func (a *aside) Write(b []byte) (int, error) {
	var block []byte
	select {
	case block = <-a.free:
	default:
	}
	a.blocks <- append(block, b...)
	return len(b), nil
}

// close waits until everything is written.
func (a *aside) close() {
	close(a.blocks)
	<-a.done
}

// errStopped ends the sender of an archive that is refused.
var errStopped = errors.New("the archive is not read any further")

// counter counts bytes.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// plain needs no close.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// reader returns a reader of the file from its beginning. Several readers may read at the same time.
func (p *spool) reader() io.Reader { return io.NewSectionReader(p.file, 0, p.held) }

func (p *spool) close() {
	_ = p.file.Close()
	if p.name != "" {
		_ = os.Remove(p.name)
	}
	p.leave()
}

// verified reads an archive and fails at its end if the digest differs. An error of the [source] stays as it is.
type verified struct {
	r    io.Reader
	of   belljar.Snapshot
	sum  hash.Hash
	left int64
}

func verify(r io.Reader, of belljar.Snapshot) *verified {
	return &verified{r: r, of: of, sum: sha256.New(), left: of.ArchiveBytes}
}

func (v *verified) Read(b []byte) (int, error) {
	n, err := v.r.Read(b)
	if own, is := errors.AsType[*belljar.Error](err); is {
		return 0, own
	}
	v.sum.Write(b[:n])
	v.left -= int64(n)
	switch {
	case v.left < 0:
		return 0, damaged(v.of, errors.New("it is longer than it was"))
	case errors.Is(err, io.EOF) && (v.left > 0 || digestOf(v.sum) != v.of.Digest):
		return 0, damaged(v.of, errors.New("its digest is another one"))
	case err != nil && !errors.Is(err, io.EOF):
		return 0, damaged(v.of, err)
	}
	return n, err
}

// damaged returns the error for a snapshot with damaged bytes.
func damaged(x belljar.Snapshot, err error) error {
	hint := "remove it, and make another one"
	switch x.Kind {
	case kindHibernated, kindAsleep:
		hint = "end the session, or have the operator bring the data folder back from a backup"
	case kindTemplate:
		hint = "build the template again, of files that are whole"
	}
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("snapshot %s is damaged: its bytes no longer have the digest %s", x.ID, x.Digest), Err: err,
		Details: map[string]any{"snapshot_id": x.ID, "digest": x.Digest, "rule": "damaged"}, Hint: hint,
	}
}
