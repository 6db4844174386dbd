package daemon

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob/spool"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/event"
	logs "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/folder"
	"github.com/belljar/belljar/internal/service"
	records "github.com/belljar/belljar/internal/store/memory"
	"github.com/belljar/belljar/internal/workspace"
	"github.com/belljar/belljar/internal/workspace/local"
)

// openLocal opens a separate service over one folder of this machine. Its runs and terminals have no sandbox, and end with this
// process.
func (d *server) openLocal(ctx context.Context, cfg *config.Config, data *dataDir, events event.Sink) (workspace.Source, error) {
	dir, err := filepath.EvalSymlinks(cfg.WorkspaceDir) // git looks for a repository in the parents of the folder that it really is in
	var rt *folder.Runtime
	if err == nil {
		rt, err = folder.New(dir, data.in("local"))
	}
	if err != nil {
		return nil, mistake("SANDBOX_WORKSPACE_DIR names a folder that exists", "the workspace folder cannot be used: %v", err)
	}
	d.closers = append(d.closers, rt.Close)
	o := localOptions(cfg)
	o.Runtimes, o.Store, o.Logs, o.Blobs = []runtime.Runtime{rt}, records.New(), logs.New(), &spool.Store{Dir: data.path}
	o.Require, o.TempDir, o.Events, o.Logger = []string{}, data.path, events, d.log
	engine, err := service.New(o)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, engine.Close)
	return &local.Source{Engine: engine, Dir: dir}, engine.Recover(ctx)
}

// Records and logs of the mode local are in memory, and each poll of a front end for Git's state is a run: nothing reads one after its end.
const (
	localKeep  = 2 * time.Minute
	localLogMB = 256
)

// localOptions returns the configuration of the service of openLocal.
func localOptions(cfg *config.Config) service.Options {
	o := serviceOptions(cfg)
	o.Keep = localKeep
	o.Quota.LogMB = min(localLogMB, cmp.Or(o.Quota.LogMB, localLogMB)) // 0 is no limit
	o.DefaultImage, o.SessionRest, o.Limits.NProc = runtime.HostRef, 0, belljar.MaxLimits().NProc
	o.Warm, o.Snapshots, o.Volumes = service.WarmOptions{}, service.SnapshotOptions{}, service.VolumeOptions{}
	o.MemoryAdmission = "" // without sandboxes there are no caps
	return o
}
