package daemon

import (
	"os"
	"path/filepath"

	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// volumeOptions returns the configuration of workspaces on disk. If they are allowed, it tests whether this host supports
// them.
func volumeOptions(cfg *config.Config, data string) service.VolumeOptions {
	o := service.VolumeOptions{Dir: filepath.Join(data, "volumes"), MB: cfg.DiskWorkspaceMB, Make: disk.Make}
	if o.MB == 0 {
		return o
	}
	why, hint := disk.Missing()
	if why == "" {
		err := os.MkdirAll(o.Dir, 0o700)
		if err == nil {
			err = disk.Try(o.Dir)
		}
		if err != nil {
			why, hint = err.Error(), "the data folder must be on a disk that can allocate files, such as ext4 or XFS, and the kernel be Linux 5.12 or newer with ext4"
		}
	}
	if why != "" {
		o.Unable = &runtime.Reason{Code: "host_prerequisite_missing", Step: "mount", Detail: why, Hint: hint}
	}
	return o
}
