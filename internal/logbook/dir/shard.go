package dir

import (
	"encoding/hex"
	"path/filepath"
	"time"
)

// How the folders of a book are called.
const (
	dayFormat  = "2006-01-02"
	hourFormat = "15"
	timeless   = "other" // of ids without a time
	suffix     = ".log"
)

// shard is the folder of id below the book's own.
func shard(id string) string {
	t, ok := idTime(id)
	if !ok {
		return timeless
	}
	return filepath.Join(t.Format(dayFormat), t.Format(hourFormat))
}

// idTime is when a UUIDv7 was made; not ok for another id.
func idTime(id string) (t time.Time, ok bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[14] != '7' || id[18] != '-' || id[23] != '-' {
		return time.Time{}, false
	}
	var b [6]byte
	if _, err := hex.Decode(b[:4], []byte(id[:8])); err != nil {
		return time.Time{}, false
	}
	if _, err := hex.Decode(b[4:], []byte(id[9:13])); err != nil {
		return time.Time{}, false
	}
	var ms int64
	for _, x := range b {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms).UTC(), true
}
