package sqlite

import (
	"context"
	"math"
)

const (
	// keptPages is the number of free pages, of 4 KiB, that the file keeps for new rows.
	keptPages = 4000
	// compactPages is the number of free pages from which a file of an earlier Belljar is compacted, if they are half of it.
	compactPages = 16_000
)

// reclaim returns the file's free pages to the disk, but for keptPages. Each of its writes is short, so that other writes pass in between.
func (s *Store) reclaim(ctx context.Context) {
	for before := int64(math.MaxInt64); ; {
		var free int64
		err := s.writer.do(ctx, write{do: func(t *tx) (err error) {
			if err = t.row("PRAGMA freelist_count").Scan(&free); err == nil && free > keptPages && free < before {
				_, err = t.exec("PRAGMA incremental_vacuum(256)")
			}
			return err
		}})
		if err != nil {
			s.log.Warn("free pages of the store cannot be returned to the disk; the next sweep retries", "path", s.path, "err", err)
			return
		}
		if free <= keptPages || free >= before { // a file of an earlier Belljar keeps its pages until compact
			return
		}
		before = free
	}
}

// compact rewrites a file that an earlier Belljar made, which cannot shrink, if it is large and half empty. From then on it shrinks like a new
// one. If that fails, for example on a full disk, the file is as before.
func (s *Store) compact(ctx context.Context) {
	var mode, free, pages int64
	row := s.writeDB.QueryRowContext(ctx, "SELECT a.auto_vacuum, f.freelist_count, p.page_count FROM pragma_auto_vacuum a, pragma_freelist_count f, pragma_page_count p")
	if err := row.Scan(&mode, &free, &pages); err != nil || mode != 0 || free < compactPages || free < pages/2 {
		return
	}
	s.log.Info("compacting the store", "path", s.path, "free_bytes", free*4096, "bytes", pages*4096)
	if _, err := s.writeDB.ExecContext(ctx, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		s.log.Warn("the store cannot be compacted; the next start retries", "path", s.path, "err", err)
	}
}
