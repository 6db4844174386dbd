package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/shelf"
	"github.com/belljar/belljar/internal/store"
)

// blobPath is the path of an archive within its blob id.
const blobPath = "snapshot.tar.zst"

func blobKey(user, digest string) blob.Key {
	return blob.Key{UserID: user, RunID: blobID(digest), Path: blobPath}
}

// room refuses a snapshot to a user with the maximum number, or when the disk is full.
func (s *Snapshots) room(ctx context.Context, user string) error {
	if err := s.opts.Accounts.Room(ctx, user); err != nil {
		return err
	}
	return s.count(ctx, user)
}

// count refuses a snapshot to a user with the maximum number.
func (s *Snapshots) count(ctx context.Context, user string) error {
	_, total, err := s.opts.Store.List(ctx, belljar.SnapshotQuery{UserID: user, Limit: 1})
	if err != nil {
		return fault.Record("count the snapshots of "+user, err)
	}
	if most := s.opts.PerUser; most >= 0 && total >= most {
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("you have %d snapshots, and at most %d are allowed", total, most),
			Details: map[string]any{"quota": "snapshots", "used": total, "limit": most},
			Hint: "belljar snapshot ls (GET /snapshots) lists them, and belljar snapshot rm (DELETE /snapshots/{id}) removes one; " +
				"an operator can allow more with SANDBOX_SNAPSHOT_MAX_PER_USER",
		}
	}
	return nil
}

// insert records a snapshot. Those of hibernated sessions have no maximum: their sessions are counted.
func (s *Snapshots) insert(ctx context.Context, x belljar.Snapshot) error {
	if x.Kind != kindHibernated && x.Kind != kindAsleep {
		defer s.lock(x.UserID, "")() // another may have been made since room was called
		if err := s.count(ctx, x.UserID); err != nil {
			return err
		}
	}
	// From here on the end of the caller does not matter: the bytes are stored.
	if err := s.opts.Store.Insert(context.WithoutCancel(ctx), x); err != nil {
		return fault.Record("put the snapshot on record", err)
	}
	return nil
}

// keep stores an archive as snapshot x, whose id, owner and origin are set: its bytes first, then its record.
func (s *Snapshots) keep(ctx context.Context, p *spool, x belljar.Snapshot) (belljar.Snapshot, error) {
	x.Digest, x.Bytes, x.Files, x.ArchiveBytes, x.Kind, x.Consistent = p.digest, p.Bytes, p.Files, p.size, cmp.Or(x.Kind, kindFiles), p.frozen
	x.CreatedAt = s.opts.Now()
	if s.opts.TTL > 0 && x.ExpiresAt == nil && x.Kind != kindTemplate {
		x.ExpiresAt = new(x.CreatedAt.Add(s.opts.TTL))
	}
	defer s.lock(x.UserID, x.Digest)()
	known, err := s.opts.Store.Has(ctx, x.UserID, x.Digest)
	if err != nil {
		return x, fault.Record("look for the bytes of a snapshot", err)
	}
	claim, err := s.opts.Accounts.AllowArtifacts(ctx, x.UserID)
	if err != nil {
		return x, err
	}
	defer claim.Close()
	if known {
		x.StoredBytes, err = s.check(ctx, x)
	}
	if !known || err != nil { // damaged or missing bytes are written again
		x.StoredBytes, err = s.store(ctx, p, x, claim)
	}
	if err == nil {
		err = s.insert(ctx, x)
		s.unpackedOf(x.Digest, (*shelf.Shelf).Recall) // a resumed session may still use it
	}
	if err != nil || known {
		claim.SetTo(0)
	}
	if err != nil && !known {
		if left := s.opts.Blobs.Delete(context.WithoutCancel(ctx), x.UserID, blobID(x.Digest)); left != nil {
			err = errors.Join(err, left) // a sweep removes it
		}
	}
	return x, err
}

// store puts an archive into the blobs, as far as its owner's quota permits, and returns its stored size.
func (s *Snapshots) store(ctx context.Context, p *spool, x belljar.Snapshot, claim *admission.Allowance) (int64, error) {
	if !claim.Reserve(p.held) {
		used, most := claim.Left()
		e := &belljar.Error{
			Code:    belljar.CodeQuotaExceeded,
			Message: fmt.Sprintf("the snapshot takes up %v MiB, and your snapshots, artifacts and volumes %v of %v MiB already", admission.MiB(p.held), admission.MiB(used), admission.MiB(most)),
			Details: map[string]any{"quota": "artifact_mb", "asked": admission.MiB(p.held), "used": admission.MiB(used), "limit": admission.MiB(most)},
			Hint: "remove snapshots (belljar snapshot ls, belljar snapshot rm) or volumes (belljar volume rm); " +
				"an operator can allow more with artifact_mb in your quota",
		}
		if p.held > most {
			e.Hint = "the snapshot alone is larger than the quota: make it smaller; an operator can allow more with artifact_mb in your quota"
		}
		return 0, e
	}
	var err error
	key := blobKey(x.UserID, x.Digest)
	if p.draft {
		err = s.opts.Blobs.(blob.Drafter).Keep(key, p.file)
	} else {
		_, err = s.opts.Blobs.Put(ctx, key, p.reader())
	}
	if err == nil {
		err = s.opts.Blobs.Sync(ctx, x.UserID, key.RunID)
	}
	switch {
	case err == nil:
		return p.held, nil
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	return 0, fault.Record("keep the bytes of a snapshot", err)
}

// open returns the archive of a snapshot, until ctx ends. The read of its end fails if the digest differs.
func (s *Snapshots) open(ctx context.Context, x belljar.Snapshot) (*opened, error) {
	body, err := s.opts.Blobs.Open(ctx, blobKey(x.UserID, x.Digest), 0)
	if errors.Is(err, blob.ErrNotFound) {
		if _, err := s.opts.Store.Get(ctx, x.ID); errors.Is(err, store.ErrNotFound) {
			return nil, notFound(x.ID) // it was removed meanwhile
		}
		return nil, damaged(x, err)
	}
	if err != nil {
		return nil, fault.Record("open the bytes of snapshot "+x.ID, err)
	}
	o := &opened{body: body}
	if o.dec, err = zstd.NewReader(io.TeeReader(source{body}, &o.stored), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20)); err != nil {
		_ = body.Close()
		return nil, fault.Record("open the bytes of snapshot "+x.ID, err)
	}
	o.Reader = &during{ctx, verify(o.dec, x)}
	return o, nil
}

// source is the bytes of a blob. Its own errors say nothing about the bytes: a later read may succeed.
type source struct{ io.Reader }

func (s source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fault.Record("read the bytes of a snapshot", err)
	}
	return n, err
}

// opened is an archive that is being read from the blobs.
type opened struct {
	io.Reader
	dec    *zstd.Decoder
	body   io.ReadCloser
	stored counter // bytes read from the blob
}

func (o *opened) Close() error {
	o.dec.Close()
	return o.body.Close()
}

// check reads a snapshot's bytes, reports whether they are intact, and returns how many are stored.
func (s *Snapshots) check(ctx context.Context, x belljar.Snapshot) (stored int64, err error) {
	r, err := s.open(ctx, x)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return r.stored.n, err
}

// during reads until a context ends.
type during struct {
	ctx context.Context
	r   io.Reader
}

func (d *during) Read(b []byte) (int, error) {
	if err := context.Cause(d.ctx); err != nil {
		return 0, err
	}
	return d.r.Read(b)
}

// expiredAtOnce is how many snapshots are removed in one step.
const expiredAtOnce = 100

// Sweep removes expired snapshots, and unpacked files that are not in use.
func (s *Snapshots) Sweep(ctx context.Context, now time.Time) error {
	if s.opts.Shelf != nil {
		defer s.opts.Shelf.Sweep()
	}
	for {
		list, err := s.opts.Store.Expired(ctx, now, expiredAtOnce)
		if err != nil {
			return fmt.Errorf("sweep snapshots: %w", err)
		}
		var errs []error
		for _, x := range list {
			errs = append(errs, s.remove(ctx, x))
		}
		if err := errors.Join(errs...); err != nil || len(list) < expiredAtOnce {
			return err
		}
	}
}

// SweepBlob removes the bytes with a key, unless a snapshot uses them.
func (s *Snapshots) SweepBlob(ctx context.Context, k blob.Key) error {
	digest := digestPrefix + k.RunID
	defer s.lock(k.UserID, digest)()
	if has, err := s.opts.Store.Has(ctx, k.UserID, digest); err != nil || has {
		return err
	}
	return s.opts.Blobs.Delete(ctx, k.UserID, k.RunID)
}

// IsBlob reports whether a blob's id belongs to a snapshot's bytes.
func IsBlob(id string) bool { return len(id) == 64 }
