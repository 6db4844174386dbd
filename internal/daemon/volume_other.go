//go:build !linux

package daemon

import (
	"path/filepath"

	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// volumeOptions allows no workspace on disk, which requires Linux file systems.
func volumeOptions(cfg *config.Config, data string) service.VolumeOptions {
	return service.VolumeOptions{
		Dir: filepath.Join(data, "volumes"), MB: cfg.DiskWorkspaceMB,
		Unable: &runtime.Reason{Code: "unsupported_os", Step: "mount", Detail: "workspaces on disk need Linux", Hint: "run the server on Linux"},
	}
}
