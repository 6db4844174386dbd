//go:build linux

package gvisor

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/seccomp"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// Ids in the jar: runsc is root of its user namespace and nowhere else, and runs the sentry as the user nobody. Ids inside
// the sandbox are gVisor's own, and do not exist on the host.
const (
	jarRoot  = 0
	nobodyID = 65534
)

// Steps of building a sandbox in addition to those of every jar, as a [runtime.StepError] names them.
const (
	stepProgram  = "runsc" // belljar-runsc is missing, or has failed
	stepUser     = "user"
	stepFilter   = "seccomp"
	stepSnapshot = runtime.StepSnapshot
)

// plan holds the settings of one sandbox.
type plan struct {
	birth     *jar.Birth
	workspace runtime.Workspace
	asked     belljar.Limits
	limits    limits
	lease     time.Duration
	user      rootfs.User
	root      *rootfs.Tree
	image     string // the unpacked image's folder; "" for the host's own programs
	runsc     string
	agent     agentFile
	// agentLink is the sandbox's link to the agent file; "" for a copy in the jar's root, where the folder of links is mounted noexec.
	agentLink string
	// configFile is the bundle's configuration. It is in the sandbox's folder, where we can change it.
	configFile string
	platform   string
	snapshot   *folder
	layers     []runtime.Layer
	disk       *rack.Disk      // nil for a workspace in memory
	noFlush    seccomp.Program // for everything in the jar; empty if programs may flush their disk
	argument   string          // the keep's configuration, JSON
}

// program writes the birth of a jar into p. The order is the security argument: first the namespaces, then the root inside
// them and the pivot into it, so that there is no way back to the host's files. Only then does any program run. runsc makes
// the network namespaces, for the sentry and the gofer each: the keep needs none, and without a capability on the host it
// can do nothing there.
func (pl *plan) program(p *forkexec.Program) {
	m := mount.New(p)

	// Until Sync the parent writes our id maps concurrently; no step before it needs them.
	pl.birth.Enter(p)
	from := pl.openSources(p)
	p.Step(jar.StepUserNS)
	p.Sync()
	jar.SetID(p, jarRoot)
	jar.SetDumpable(p)
	pl.birth.BoundWatches(p)
	jar.Pivot(p, pl.build(p, m, from))
	pl.birth.Leave(p)
	p.Call(unix.SYS_PRCTL, forkexec.Int(unix.PR_SET_NO_NEW_PRIVS), forkexec.Int(1), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
	if len(pl.noFlush) > 0 {
		p.Step(stepFilter)
		pl.noFlush.Append(p)
	}
	pl.birth.Exec(p, []string{keepCommand, pl.argument}, agentEnv())
}

// enough reports whether a range maps the two ids that a jar uses.
func enough(ids *idmap.Range) bool {
	return !slices.ContainsFunc([]int{jarRoot, nobodyID}, func(id int) bool { return ids.HostUID(id) < 0 || ids.HostGID(id) < 0 })
}
