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

// index is the list of images with their folders: a file that is replaced as a whole, and a cache of it. Other processes replace the file
// too, so each access first compares its modification time, which no two versions share.
type index struct {
	*disk
	path    string
	most    int64      // size limit in bytes
	touched sync.Map   // folder of an image → when its use was last recorded
	looking sync.Mutex // held during a check whether an image is used, which takes its lock for a moment

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

// stored is the content of the file.
type stored struct {
	Version int       `json:"version"`
	Images  []*record `json:"images"`
}

const indexVersion = 1

// Limits of the file in bytes. It grows up to the first, and each image has some 45 KiB at most: a change writes all of it. The second
// limits what is read.
const (
	mostIndex = 16 << 20
	mostRead  = 1 << 30
)

// errFull means that the list of images has reached its limit.
var errFull = errors.New("its limit is reached")

// load returns the current index.
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
	info, err := f.Stat() // of the opened version, which may have been replaced by now
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
		Code: belljar.CodeInternal, Message: "the index of images " + path + " is damaged or of another version of Belljar", Err: err,
		Details: map[string]any{"file": path}, Hint: "restore the file from a copy, or remove the folder " + filepath.Dir(path) + " to start without images",
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
		v.byDigest[r.Digest] = r // its own digest has precedence over a list's
	}
	return v
}

// find looks for ref as a name as given, then as a complete name, then as a digest. It returns the name that matched, "" for a digest, and
// nil if there is no image.
func (v *view) find(ref string) (*record, string, error) {
	if r := v.byName[ref]; r != nil {
		return r, ref, nil
	}
	whole, err := reference.Parse(ref)
	if err != nil {
		return nil, "", nil // an invalid reference could only match a name as given
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

// begins finds the only image whose digest has that prefix.
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

// edit replaces the index by the result of change, which gets copies of its records. change also moves the images' folders into place or
// away, so that both are one step under the index's lock. If the index cannot be written, edit calls change's second result, which undoes
// the moves.
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

// write replaces the file. It gives it a later time than the last version's, however fast they follow each other.
func (x *index) write(records []*record, last *view, now time.Time) (err error) {
	data, err := json.Marshal(stored{Version: indexVersion, Images: records})
	if err != nil {
		return err
	}
	if size := int64(len(data)); size > x.most && size > last.size {
		return &belljar.Error{
			Code: belljar.CodeDiskFull, Message: "no room left in the list of images", Hint: "remove images with belljar image prune",
			Details: map[string]any{"images": len(last.records), "limit": x.most}, Err: errFull,
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
