package layer

import "time"

// fileMode returns the permission bits for a file: see the package's documentation.
func fileMode(declared int64) uint32 { return 0o400 | widened(declared) }

// folderMode returns the permission bits for a folder.
func folderMode(declared int64) uint32 { return 0o700 | widened(declared) }

func widened(declared int64) uint32 {
	owner := uint32(declared) & 0o700
	shared := uint32(declared)&0o055 | owner&0o500>>3 | owner&0o500>>6
	return owner | shared
}

// latest is in 2242. ext4 supports two more centuries.
const latest = 1<<33 - 1

// within limits a time to the range that common file systems support.
func within(t time.Time) time.Time {
	switch {
	case t.Unix() < 0:
		return time.Unix(0, 0)
	case t.Unix() > latest:
		return time.Unix(latest, 0)
	}
	return t
}
