package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

// bounds are what a server takes as one upload.
type bounds struct {
	bytes        int64
	files, depth int
}

// boundsOf asks a server what it takes.
func boundsOf(ctx context.Context, s belljar.Service) (bounds, error) {
	found, err := s.Node().Runtimes(ctx)
	if err != nil {
		return bounds{}, err
	}
	for _, r := range found.Runtimes {
		return bounds{int64(r.MaxUploadMB) << 20, r.MaxUploadFiles, r.MaxUploadDepth}, nil // they are the same for all
	}
	return bounds{}, nil
}

func (b bounds) String() string {
	return fmt.Sprintf("%s, %d files, %d folders deep", bytesOf(b.bytes), b.files, b.depth)
}

// packed is what a source takes in an archive at most: itself, and what tar says of it.
func (s source) packed() int64 { return s.size() + 4096 }

// deep reports whether a source lies too deep for an upload.
func (b bounds) deep(s source) bool {
	folders := strings.Count(s.dst, "/")
	if s.folder() {
		folders++
	}
	return folders > b.depth
}

// alone reports whether a source is to be sent by itself where not all go at once: it is a large part of an upload, or
// can be in none.
func (b bounds) alone(s source) bool { return b.deep(s) || s.packed() > b.bytes/4 }

func (s source) folder() bool { return s.info != nil && s.info.IsDir() }

// one reports whether all of an upload may go at once.
func (b bounds) one(u *upload) bool {
	var total int64
	for _, s := range u.sources {
		total += s.packed()
		if total > b.bytes || b.deep(s) {
			return false
		}
	}
	return len(u.sources) <= b.files
}

// batches are the sources that do not go alone, as many together as may. Folders are last, when nothing has to be put
// into them any more: they may be read-only.
func (b bounds) batches(u *upload) iter.Seq[*upload] {
	together := slices.DeleteFunc(slices.Clone(u.sources), b.alone)
	slices.SortStableFunc(together, func(x, y source) int { return rank(x) - rank(y) })
	return func(yield func(*upload) bool) {
		for len(together) > 0 {
			n, total := 0, int64(0)
			for n < len(together) && n < b.files && (n == 0 || total+together[n].packed() <= b.bytes) {
				total += together[n].packed()
				n++
			}
			if !yield(&upload{sources: together[:n]}) {
				return
			}
			together = together[n:]
		}
	}
}

func rank(s source) int {
	if s.folder() {
		return 1
	}
	return 0
}

// send puts files into a session: all of them or none if they are no more than one upload may be, else piece by piece,
// each file of them whole or not at all.
func (c *console) send(ctx context.Context, s belljar.Service, id string, files *upload, shown *progress) (n int, size int64, err error) {
	most, err := boundsOf(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	if most.one(files) {
		return c.sendTogether(ctx, s, id, files, shown)
	}
	session, err := s.Sessions().Get(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	if err := files.fits(session.Limits.WorkspaceMB); err != nil {
		return 0, 0, err
	}
	defer func() {
		if err != nil && n > 0 {
			c.Note("%s arrived before that", plural(n, "file"))
		}
	}()
	for _, source := range files.sources {
		if !most.alone(source) {
			continue
		}
		if err := sendAlone(ctx, s, id, source, shown); err != nil {
			return n, size, err
		}
		if !source.folder() {
			n, size = n+1, size+source.size()
		}
	}
	for batch := range most.batches(files) {
		some, more, err := c.sendTogether(ctx, s, id, batch, shown)
		n, size = n+some, size+more
		if err != nil {
			return n, size, err
		}
	}
	return n, size, nil
}

func (c *console) sendTogether(ctx context.Context, s belljar.Service, id string, files *upload, shown *progress) (int, int64, error) {
	archive := files.reader()
	defer archive.Close()
	done, err := s.Sessions().Upload(ctx, id, belljar.Upload{Parts: func(yield func(belljar.UploadPart, error) bool) {
		yield(belljar.UploadPart{Format: belljar.UploadTar, Body: shown.of(archive)}, nil)
	}})
	return done.FileCount, done.BytesReceived, err
}

// sendAlone puts one file or folder where it belongs.
func sendAlone(ctx context.Context, s belljar.Service, id string, one source, shown *progress) error {
	if one.folder() {
		return s.Files().Mkdir(ctx, id, one.dst, 0)
	}
	f, err := one.open()
	if err != nil {
		return mistake("", "%s: %s", one.origin(), reason(err))
	}
	defer f.Close()
	_, err = s.Files().Write(ctx, id, belljar.FileWrite{
		Path: one.dst, Size: one.size(), Mode: uint32(one.info.Mode().Perm()), Overwrite: true,
		Content: shown.of(io.LimitReader(f, one.size())),
	})
	if err != nil {
		return named(one.origin(), err)
	}
	return nil
}
