package sqlite

import (
	"context"
	"slices"
	"strings"

	"github.com/belljar/belljar/internal/store"
)

// maxImages is the largest number of image names that a search compares one by one.
const maxImages = 1000

// search reads a list whose only filter is a search. Instead of all runs it scans the image names and the messages,
// which most runs lack. ok is false if there are too many names for that.
func (r *listReader) search(ctx context.Context) (page []store.Run, total int, ok bool, err error) {
	images, ok, err := r.images(ctx)
	if err != nil || !ok {
		return nil, 0, false, err
	}
	in := "(" + strings.TrimSuffix(strings.Repeat("?,", len(images)), ",") + ")"
	byImage, byMessage := byImage(in), byMessage(in)
	args := slices.Concat(images, []any{r.part}, images)
	count := "SELECT (SELECT count(*)" + byImage + ") + (SELECT count(*)" + byMessage + ")"
	if err := r.tx.QueryRowContext(ctx, count, args...).Scan(&total); err != nil {
		return nil, 0, false, r.s.failed(ctx, err)
	}
	if total <= r.offset {
		return nil, total, true, nil
	}
	if total > few {
		page, _, err = r.find(ctx, min(r.limit, total-r.offset))
		return page, total, true, err
	}
	found := *r.listing
	found.args = args
	reader := listReader{listing: &found, s: r.s, tx: r.tx}
	which := "SELECT n, " + r.by + " FROM (SELECT rowid AS n, " + r.by + byImage + " UNION ALL SELECT rowid AS n, " + r.by + byMessage + ")"
	page, _, err = reader.pageBy(ctx, found.rows(which))
	return page, total, true, err
}

// byImage returns the clause that selects the runs of the images.
func byImage(in string) string {
	return " FROM sandbox_runs INDEXED BY idx_runs_base_image WHERE base_image IN " + in
}

// byMessage returns the clause that selects the runs whose message contains the text, except those of the images.
func byMessage(in string) string {
	return " FROM sandbox_runs INDEXED BY idx_runs_message WHERE message <> '' AND instr(lower(message), ?) > 0 AND base_image NOT IN " + in
}

// imageNames selects the distinct image names: each step finds the next one in the index.
const imageNames = "WITH RECURSIVE i(image) AS (SELECT min(base_image) FROM sandbox_runs UNION ALL " +
	"SELECT (SELECT min(base_image) FROM sandbox_runs WHERE base_image > i.image) FROM i WHERE i.image IS NOT NULL) " +
	"SELECT image FROM i WHERE image IS NOT NULL LIMIT ?"

// images returns the image names that contain the text; ok is false if there are too many names.
func (r *listReader) images(ctx context.Context) (matching []any, ok bool, err error) {
	rows, err := r.tx.QueryContext(ctx, imageNames, maxImages+1)
	names, err := collect(ctx, r.s, rows, err, func(row scanner) (name string, err error) {
		err = row.Scan(&name)
		return name, err
	})
	for _, name := range names {
		if strings.Contains(asciiLower(name), r.part) {
			matching = append(matching, name)
		}
	}
	return matching, len(names) <= maxImages, err
}
