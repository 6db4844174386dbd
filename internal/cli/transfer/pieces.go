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

// Bounds are a runtime's limits for one upload.
type Bounds struct {
	bytes        int64
	files, depth int
}

// BoundsOf requests the limits for uploads into a session.
func BoundsOf(ctx context.Context, s belljar.Service, session belljar.Session) (Bounds, error) {
	found, err := s.Node().Runtimes(ctx)
	if err != nil {
		return Bounds{}, err
	}
	for _, r := range found.Runtimes {
		if r.Name == session.Runtime {
			return Bounds{int64(r.MaxUploadMB) << 20, r.MaxUploadFiles, r.MaxUploadDepth}, nil
		}
	}
	return Bounds{}, mistake.New("", "the server no longer has the runtime of the session, %s", session.Runtime)
}

func (b Bounds) String() string {
	return fmt.Sprintf("%s, %d files, %d folders deep", show.Bytes(b.bytes), b.files, b.depth)
}

// packed returns the maximum size of a source in an archive: its contents and its tar header.
func (s Source) packed() int64 { return s.size() + 4096 }

// deep reports whether a source exceeds the depth of an upload.
func (b Bounds) deep(s Source) bool {
	folders := strings.Count(s.Dst, "/")
	if s.folder() {
		folders++
	}
	return folders > b.depth
}

// alone reports whether a source is sent separately when one upload cannot hold all: it is large, or fits into no upload.
func (b Bounds) alone(s Source) bool { return b.deep(s) || s.packed() > b.bytes/4 }

func (s Source) folder() bool { return s.Info != nil && s.Info.IsDir() }

// One reports whether one upload can hold all of u.
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

// batches groups the sources that are not sent alone into uploads. Folders come last, because they may be read-only and must have
// their contents by then.
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

// send puts files into a session. It sends all or none if one upload can hold them, else in pieces, where each file arrives whole
// or not at all.
func (c *Copy) send(ctx context.Context, id string, files *Upload, shown *show.Progress) (n int, size int64, err error) {
	session, err := c.Service.Sessions().Get(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	most, err := BoundsOf(ctx, c.Service, session)
	if err != nil {
		return 0, 0, err
	}
	if most.One(files) {
		return c.sendTogether(ctx, id, files, shown)
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

// sendAlone sends one file or folder to its destination.
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
