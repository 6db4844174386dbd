package dir

import (
	"encoding/hex"
	"path/filepath"
	"time"
)

// Names of a book's folders.
const (
	dayFormat  = "2006-01-02"
	hourFormat = "15"
	timeless   = "other" // folder of ids without a time
	suffix     = ".log"
)

// shard returns the folder of id, relative to the book's.
func shard(id string) string {
	t, ok := idTime(id)
	if !ok {
		return timeless
	}
	return filepath.Join(t.Format(dayFormat), t.Format(hourFormat))
}

// idTime returns the time of a UUIDv7; ok is false for any other id.
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
