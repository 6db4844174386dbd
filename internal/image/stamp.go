package image

import (
	"os"
	"path/filepath"
	"time"
)

// stampEvery is how often the time of an image's last use is written down.
const stampEvery = time.Minute

// touch notes that an image is used, at most once a minute.
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

// stamped reads when an image was last used; zero if that is not known.
func stamped(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime().UTC()
}
