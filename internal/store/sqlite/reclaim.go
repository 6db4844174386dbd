package sqlite

import (
	"context"
	"math"
)

const (
	// keptPages is the number of free pages, of 4 KiB, that the file keeps for new rows.
	keptPages = 4000
	// slackPages is the number of free pages from which a file of an earlier Belljar causes a warning, if they are half of it.
	slackPages = 16_000
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
		if free <= keptPages || free >= before { // a file of an earlier Belljar keeps its pages
			return
		}
		before = free
	}
}

// warnSlack logs that a file of an earlier Belljar, which cannot shrink, is large and half empty.
func (s *Store) warnSlack(ctx context.Context) {
	var mode, free, pages int64
	row := s.writeDB.QueryRowContext(ctx, "SELECT a.auto_vacuum, f.freelist_count, p.page_count FROM pragma_auto_vacuum a, pragma_freelist_count f, pragma_page_count p")
	if err := row.Scan(&mode, &free, &pages); err != nil || mode != 0 || free < slackPages || free < pages/2 {
		return
	}
	s.log.Warn("the store's file is half empty, and cannot shrink: stop belljar and run the statements on it", "path", s.path,
		"statements", "PRAGMA auto_vacuum = INCREMENTAL; VACUUM", "free_bytes", free*4096, "bytes", pages*4096)
}
