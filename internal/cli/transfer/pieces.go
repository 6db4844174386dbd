package transfer

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// Bounds are what a server takes as one upload.
type Bounds struct {
	bytes        int64
	files, depth int
}

// BoundsOf asks a server what it takes.
func BoundsOf(ctx context.Context, s belljar.Service) (Bounds, error) {
	found, err := s.Node().Runtimes(ctx)
	if err != nil {
		return Bounds{}, err
	}
	for _, r := range found.Runtimes {
		return Bounds{int64(r.MaxUploadMB) << 20, r.MaxUploadFiles, r.MaxUploadDepth}, nil // they are the same for all
	}
	return Bounds{}, nil
}

func (b Bounds) String() string {
	return fmt.Sprintf("%s, %d files, %d folders deep", show.Bytes(b.bytes), b.files, b.depth)
}

// packed is what a source takes in an archive at most: itself, and what tar says of it.
func (s Source) packed() int64 { return s.size() + 4096 }

// deep reports whether a source lies too deep for an upload.
func (b Bounds) deep(s Source) bool {
	folders := strings.Count(s.Dst, "/")
	if s.folder() {
		folders++
	}
	return folders > b.depth
}

// alone reports whether a source is to be sent by itself where not all go at once: it is a large part of an upload, or
// can be in none.
func (b Bounds) alone(s Source) bool { return b.deep(s) || s.packed() > b.bytes/4 }

func (s Source) folder() bool { return s.Info != nil && s.Info.IsDir() }

// One reports whether all of an upload may go at once.
func (b Bounds) One(u *Upload) bool {
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
func (b Bounds) batches(u *Upload) iter.Seq[*Upload] {
	together := slices.DeleteFunc(slices.Clone(u.sources), b.alone)
	slices.SortStableFunc(together, func(x, y Source) int { return rank(x) - rank(y) })
	return func(yield func(*Upload) bool) {
		for len(together) > 0 {
			n, total := 0, int64(0)
			for n < len(together) && n < b.files && (n == 0 || total+together[n].packed() <= b.bytes) {
				total += together[n].packed()
				n++
			}
			if !yield(&Upload{sources: together[:n]}) {
				return
			}
			together = together[n:]
		}
	}
}

func rank(s Source) int {
	if s.folder() {
		return 1
	}
	return 0
}

// send puts files into a session: all of them or none if they are no more than one upload may be, else piece by piece,
// each file of them whole or not at all.
func (c *Copy) send(ctx context.Context, id string, files *Upload, shown *show.Progress) (n int, size int64, err error) {
	most, err := BoundsOf(ctx, c.Service)
	if err != nil {
		return 0, 0, err
	}
	if most.One(files) {
		return c.sendTogether(ctx, id, files, shown)
	}
	session, err := c.Service.Sessions().Get(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	if err := files.Fits(session.Limits.WorkspaceMB); err != nil {
		return 0, 0, err
	}
	defer func() {
		if err != nil && n > 0 {
			c.Notice.Note("%s arrived before that", show.Plural(n, "file"))
		}
	}()
	for _, source := range files.sources {
		if !most.alone(source) {
			continue
		}
		if err := sendAlone(ctx, c.Service, id, source, shown); err != nil {
			return n, size, err
		}
		if !source.folder() {
			n, size = n+1, size+source.size()
		}
	}
	for batch := range most.batches(files) {
		some, more, err := c.sendTogether(ctx, id, batch, shown)
		n, size = n+some, size+more
		if err != nil {
			return n, size, err
		}
	}
	return n, size, nil
}

func (c *Copy) sendTogether(ctx context.Context, id string, files *Upload, shown *show.Progress) (int, int64, error) {
	archive := files.Reader()
	defer archive.Close()
	done, err := c.Service.Sessions().Upload(ctx, id, belljar.Upload{Parts: func(yield func(belljar.UploadPart, error) bool) {
		yield(belljar.UploadPart{Format: belljar.UploadTar, Body: shown.Of(archive)}, nil)
	}})
	return done.FileCount, done.BytesReceived, err
}

// sendAlone puts one file or folder where it belongs.
func sendAlone(ctx context.Context, s belljar.Service, id string, one Source, shown *show.Progress) error {
	if one.folder() {
		return s.Files().Mkdir(ctx, id, one.Dst, 0)
	}
	f, err := one.open()
	if err != nil {
		return mistake.New("", "%s: %s", one.origin(), mistake.Reason(err))
	}
	defer f.Close()
	_, err = s.Files().Write(ctx, id, belljar.FileWrite{
		Path: one.Dst, Size: one.size(), Mode: uint32(one.Info.Mode().Perm()), Overwrite: true,
		Content: shown.Of(io.LimitReader(f, one.size())),
	})
	if err != nil {
		return mistake.In(one.origin(), err)
	}
	return nil
}
