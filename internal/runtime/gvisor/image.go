//go:build linux

package gvisor

import (
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
)

// lastID is the highest user and group: the ids inside are gVisor's own, and a signed number there.
const lastID = 1<<31 - 2

// userOf is whom programs run as.
func userOf(root runtime.Root) rootfs.User {
	return rootfs.User{UID: root.UID, GID: root.GID}.Fill()
}
