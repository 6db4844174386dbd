//go:build linux

package file

import (
	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

// space returns the use and the size of the workspace's file system.
func (f *fileOp) space() error {
	dir, err := f.w.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return err
	}
	unit := st.Frsize
	if unit == 0 {
		unit = st.Bsize
	}
	// Blocks that the file system reserves for root are no room. The root of the file system does not count as a file.
	return f.s.reply(wire.Reply{Space: &wire.Space{
		Bytes: int64(st.Blocks-st.Bfree) * unit, MaxBytes: int64(st.Blocks-st.Bfree+st.Bavail) * unit,
		Files: max(0, int64(st.Files-st.Ffree)-1), MaxFiles: max(0, int64(st.Files)-1),
	}})
}
