package image

import (
	"os"
	"path/filepath"
	"time"
)

// stampEvery is how often the time of an image's last use is recorded.
const stampEvery = time.Minute

// touch records that an image is used, at most once a minute.
func (x *index) touch(r *record) {
	now := x.now()
	if last, ok := x.touched.Load(r.Folder); ok && now.Sub(last.(time.Time)) < stampEvery {
		return
	}
	x.touched.Store(r.Folder, now)
	if err := os.Chtimes(filepath.Join(x.folder(r), stampFile), now, now); err != nil {
		x.warn("the time of an image's last use could not be written down", "image", r.ref(), "err", err)
	}
}

// stamped returns when an image was last used; zero if that is unknown.
func stamped(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime().UTC()
}
