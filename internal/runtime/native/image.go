//go:build linux

package native

import (
	"slices"

	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/rootfs"
)

// lastID is the highest user and group that a sandbox can have.
const lastID = 65535

// settle maps the user in a range. A range with few ids maps only some, one of which is reserved for the user.
func settle(ids *idmap.Range, u rootfs.User) {
	ids.UIDs, ids.GIDs = withID(ids.UIDs, u.UID), withID(ids.GIDs, u.GID)
}

func withID(extents []idmap.Extent, id int) []idmap.Extent {
	const meant = 1000
	if slices.ContainsFunc(extents, func(e idmap.Extent) bool { return e.Inside <= id && id < e.Inside+e.Count }) {
		return extents
	}
	out := slices.Clone(extents)
	for i, e := range out {
		if e.Inside == meant {
			out[i].Inside, out[i].Count = id, 1
		}
	}
	return out
}
