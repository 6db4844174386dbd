package sqlite

import (
	"context"
	"slices"
	"strings"

	"github.com/belljar/belljar/internal/store"
)

// manyImages is how many names of images are looked through one by one. There are few where people choose from a list.
const manyImages = 1000

// search reads a list that is filtered by a search and nothing else. Instead of all runs it looks through the names of
// images and through the messages, which most runs do not have. ok is false where that is no shorter.
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

// byImage selects the runs of these images.
func byImage(in string) string {
	return " FROM sandbox_runs INDEXED BY idx_runs_base_image WHERE base_image IN " + in
}

// byMessage selects the runs whose message has a text, without those of these images.
func byMessage(in string) string {
	return " FROM sandbox_runs INDEXED BY idx_runs_message WHERE message <> '' AND instr(lower(message), ?) > 0 AND base_image NOT IN " + in
}

// imageNames are the names of images: each is looked up in the index after the one before.
const imageNames = "WITH RECURSIVE i(image) AS (SELECT min(base_image) FROM sandbox_runs UNION ALL " +
	"SELECT (SELECT min(base_image) FROM sandbox_runs WHERE base_image > i.image) FROM i WHERE i.image IS NOT NULL) " +
	"SELECT image FROM i WHERE image IS NOT NULL LIMIT ?"

// images returns the names of images that have the text in them; ok is false if there are too many names.
func (r *listReader) images(ctx context.Context) (matching []any, ok bool, err error) {
	rows, err := r.tx.QueryContext(ctx, imageNames, manyImages+1)
	names, err := collect(ctx, r.s, rows, err, func(row scanner) (name string, err error) {
		err = row.Scan(&name)
		return name, err
	})
	for _, name := range names {
		if strings.Contains(asciiLower(name), r.part) {
			matching = append(matching, name)
		}
	}
	return matching, len(names) <= manyImages, err
}
