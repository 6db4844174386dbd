package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/reference"
)

// index is the list of images, with their folders: a file that is replaced as a whole, and what was last read of it. Other processes replace
// it too, so each look begins with the file's time, which no two versions share.
type index struct {
	*disk
	path    string
	most    int64      // bytes that it may grow to
	touched sync.Map   // folder of an image → when its use was last written
	looking sync.Mutex // held to look whether an image is used, which takes its lock for a moment

	mu   sync.Mutex
	last *view
}

// view is one version of the index. It is immutable.
type view struct {
	at   time.Time // modification time of the file; zero if there is none
	size int64

	records  []*record
	byName   map[string]*record // as given
	byNormal map[string]*record // names completed by [Parse]
	byDigest map[string]*record
}

// stored is the file.
type stored struct {
	Version int       `json:"version"`
	Images  []*record `json:"images"`
}

const indexVersion = 1

// Bounds of the file in bytes: what it grows to, each image having at most mostKept and its names in it, and what is read.
const (
	mostIndex = 64 << 20
	mostRead  = 1 << 30
)

// load returns the index as it is now.
func (x *index) load() (*view, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	info, err := os.Stat(x.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.last = newView(nil)
		return x.last, nil
	case err != nil:
		return nil, fault.Wrap("read the index", err)
	case x.last != nil && x.last.at.Equal(info.ModTime()) && x.last.size == info.Size():
		return x.last, nil
	}
	v, err := readView(x.path)
	if err != nil {
		return nil, err
	}
	x.last = v
	return v, nil
}

func readView(path string) (*view, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.Wrap("read the index", err)
	}
	defer f.Close()
	info, err := f.Stat() // of the version that is read, whatever the name stands for by now
	if err != nil {
		return nil, fault.Wrap("read the index", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, mostRead))
	if err != nil {
		return nil, fault.Wrap("read the index", err)
	}
	var file stored
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, damaged(path, err)
	}
	if file.Version != indexVersion {
		return nil, damaged(path, fmt.Errorf("version %d, not %d", file.Version, indexVersion))
	}
	for _, r := range file.Images {
		if r == nil || !reference.IsDigest(r.Digest) || r.Folder == "" || r.Folder != filepath.Base(r.Folder) || r.Folder[0] == '.' {
			return nil, damaged(path, errors.New("it has an image without a digest or a folder"))
		}
	}
	v := newView(file.Images)
	v.at, v.size = info.ModTime(), info.Size()
	return v, nil
}

func damaged(path string, err error) error {
	return &belljar.Error{
		Code: belljar.CodeInternal, Message: "the index of images is damaged or of another version of Belljar", Err: err,
		Details: map[string]any{"file": path}, Hint: "remove the file's folder to start over, or restore the file from a copy",
	}
}

func newView(records []*record) *view {
	v := &view{records: records, byName: map[string]*record{}, byNormal: map[string]*record{}, byDigest: map[string]*record{}}
	for _, r := range records {
		for _, n := range r.Names {
			v.byName[n] = r
			if whole, err := reference.Parse(n); err == nil && v.byNormal[whole.Name] == nil {
				v.byNormal[whole.Name] = r
			}
		}
		for _, d := range r.Also {
			if v.byDigest[d] == nil {
				v.byDigest[d] = r
			}
		}
	}
	for _, r := range records {
		v.byDigest[r.Digest] = r // before one that a list of that digest has led to
	}
	return v
}

// find looks for ref in the order: a name as it was given, a whole name, a digest. It returns the name that has matched,
// "" if it was a digest, and nil if there is none.
func (v *view) find(ref string) (*record, string, error) {
	if r := v.byName[ref]; r != nil {
		return r, ref, nil
	}
	whole, err := reference.Parse(ref)
	if err != nil {
		return nil, "", nil // what is no reference may be a name here, and was not
	}
	if r := v.byName[whole.Name]; r != nil {
		return r, whole.Name, nil
	}
	if r := v.byNormal[whole.Name]; r != nil {
		for _, n := range r.Names {
			if p, err := reference.Parse(n); err == nil && p.Name == whole.Name {
				return r, n, nil
			}
		}
	}
	if whole.Digest == "" {
		return nil, "", nil
	}
	if r := v.byDigest[whole.Digest]; r != nil && (whole.Repository == "" || r.in(whole.Repository)) {
		return r, "", nil
	}
	if whole.Repository != "" || reference.IsDigest(whole.Digest) {
		return nil, "", nil
	}
	return v.begins(whole.Digest)
}

// begins finds the one image whose digest begins so.
func (v *view) begins(digest string) (*record, string, error) {
	found := map[*record]bool{}
	for d, r := range v.byDigest {
		if len(d) >= len(digest) && d[:len(digest)] == digest {
			found[r] = true
		}
	}
	if len(found) > 1 {
		return nil, "", &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%d images have digests that begin with %s", len(found), digest),
			Details: map[string]any{"field": "image", "image": digest}, Hint: "give more of the digest's digits",
		}
	}
	for r := range found {
		return r, "", nil
	}
	return nil, "", nil
}

// uses reports whether an image has a layer.
func (v *view) uses(layer string) bool {
	return slices.ContainsFunc(v.records, func(r *record) bool {
		return slices.ContainsFunc(r.Layers, func(p part) bool { return p.ID == layer })
	})
}

// edit replaces the index by what change makes of its records, which are copies. The images' folders are put into their
// place and taken away by change too, so that both are one step under the index's lock; where writing the
// index fails, change's second result undoes what it has done.
func (x *index) edit(ctx context.Context, change func([]*record) ([]*record, func(), error)) error {
	l, err := acquire(ctx, x.in(indexLock), true)
	if err != nil {
		return fault.Wrap("lock the index", err)
	}
	defer l.release()
	v, err := x.load()
	if err != nil {
		return err
	}
	records := make([]*record, len(v.records))
	for i, r := range v.records {
		records[i] = r.copyOf()
	}
	records, undo, err := change(records)
	if err != nil {
		return err
	}
	if err := x.write(records, v, x.now()); err != nil {
		if undo != nil {
			undo()
		}
		return fault.Wrap("write the index", err)
	}
	return nil
}

// write replaces the file. Its time is later than that of the last version, however fast they follow each other.
func (x *index) write(records []*record, last *view, now time.Time) (err error) {
	data, err := json.Marshal(stored{Version: indexVersion, Images: records})
	if err != nil {
		return err
	}
	if size := int64(len(data)); size > x.most && size > last.size {
		return &belljar.Error{
			Code: belljar.CodeDiskFull, Message: "no room left in the list of images", Hint: "remove images with belljar image prune",
			Details: map[string]any{"images": len(last.records), "limit": x.most},
		}
	}
	f, err := os.CreateTemp(filepath.Dir(x.path), tempIndex+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(data); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if step := last.at.Add(time.Millisecond); now.Before(step) {
		now = step
	}
	if err := os.Chtimes(f.Name(), now, now); err != nil {
		return err
	}
	return os.Rename(f.Name(), x.path)
}
