// Package placement describes where and how a sandbox is made: on which host, from which image, under which limits and protections. Package admission decides
// about it; runs and sessions store it.
package placement

import (
	"maps"
	"math"
	"net"
	"path"
	host "runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
)

// user is the user's name in the environment of every sandbox.
const user = "sandbox"

// TmpDir is the folder for builds in a workspace that permits execution. If the runtime has no suitable /tmp, it also holds temporary files. Agents leave it
// out of lists, archives and captures.
const TmpDir = ".tmp"

// Placement is the placement of one sandbox.
type Placement struct {
	Host    *Host
	Caps    runtime.Capabilities // the host's capabilities
	Why     string               // why this host was chosen
	Image   runtime.Root
	Fetch   string // reference to pull when the sandbox is made; "" if the image is local
	Limits  belljar.Limits
	Require []string // protections
	Exec    bool     // programs in the workspace may be executed
	// LacksGoCache means that the sandbox builds Go programs, and its image has no Go build cache yet. Making a cache executes programs of the image, so that
	// happens only for a request that starts, not for one that waits for an approval.
	LacksGoCache bool
	// Egress is its network policy; nil for no network. The sandbox itself has no network: permitted traffic goes through its agent.
	Egress *egress.Policy
	Broker *Broker // nil without brokered secrets
	// Env and Files, relative to the workspace, configure its tools for the indexes of its presets.
	Env   map[string]string
	Files []belljar.InlineFile

	// Below is the initial content of its workspace, and State the folder of the saved state that it is restored from; "" for none.
	Below runtime.Below
	State string

	// Park is a command whose interpreter may wait in the sandbox; nil for none.
	Park *runtime.Park

	// Workspace is the storage of /workspace, as reported; zero for memory.
	Workspace belljar.Workspace
	// MayMakeVolume means that the request has the size of its volume, so that a missing one may be made.
	MayMakeVolume bool

	// CompilerMB is the memory of a compiler that runs in the sandbox first, in MiB; 0 for none.
	CompilerMB int
	// InstallMB is the memory of the sandbox that installs packages first, files included, in MiB; 0 for none.
	InstallMB int
}

// MemoryMB returns the memory for the sandbox's programs, in MiB. The compiler and the program run one after the other.
func (p *Placement) MemoryMB() int { return max(p.Limits.MemoryMB, p.CompilerMB) }

// SetDisk puts the workspace on disk. Its files are then not in memory. They include the temporary files of builds.
func (p *Placement) SetDisk(w belljar.Workspace, mb int) {
	if !w.OnDisk() {
		return
	}
	p.Workspace, p.MayMakeVolume, p.Limits.WorkspaceMB, p.Caps.SharedTmp = w.Disk(mb), w.MB != 0, mb, false
}

// InMemory changes the placement to that of a side sandbox, with a workspace in memory of at most so many MiB.
func (p *Placement) InMemory(most int) {
	if p.Workspace.OnDisk() {
		p.Workspace, p.Limits.WorkspaceMB = belljar.Workspace{}, min(p.Limits.WorkspaceMB, most)
	}
}

// FilesMB returns the maximum memory for files of the workspace, in MiB.
func (p *Placement) FilesMB() int {
	if p.Workspace.OnDisk() {
		return 0
	}
	return p.Limits.WorkspaceMB
}

// ReservedMB returns the memory that is reserved for the sandbox, and before it for those that prepare it, in MiB, without temporary files.
func (p *Placement) ReservedMB() int { return max(p.InstallMB, p.MemoryMB()+p.FilesMB()) }

// Bind adjusts the limits to those in force. In a sandbox with its own user ids, nproc also enforces the limit on processes for its programs, without
// counting its agent.
func (p *Placement) Bind() {
	if p.Caps.Protection(runtime.ProtectPids).Enforced {
		p.Limits.NProc = min(p.Limits.NProc, p.Limits.Pids)
	}
}

// InForce returns the limits for a report: a limit that is not enforced is 0.
func (p *Placement) InForce() belljar.Limits {
	l := p.Limits
	for name, clear := range map[string]func(){
		runtime.ProtectCPU: func() { l.CPU = 0 }, runtime.ProtectMemory: func() { l.MemoryMB, l.BuildMemoryMB = 0, 0 }, runtime.ProtectPids: func() { l.Pids = 0 },
	} {
		if !p.Caps.Protection(name).Enforced {
			clear()
		}
	}
	return l
}

// Spec returns the sandbox's spec for its runtime.
func (p *Placement) Spec(id string, life runtime.Lifetime) runtime.Spec {
	limits := p.Limits
	limits.MemoryMB = p.MemoryMB()
	return runtime.Spec{
		ID:     id,
		Root:   p.Image,
		Limits: limits,
		Workspace: runtime.Workspace{
			Bytes:  int64(p.Limits.WorkspaceMB) << 20,
			Inodes: int64(p.Limits.Inodes),
			Exec:   p.Exec,
			Medium: runtime.MediumMemory,
			Below:  p.Below,
		},
		Network:   runtime.Network{Mode: runtime.NetworkNone},
		Lifetime:  life,
		Isolation: p.Caps.Isolation,
		Require:   p.Require,
		Park:      p.Park,
	}
}

// layerPaths returns the variables by which programs find the content of a layer. Entries of the image or the caller come first.
func layerPaths(layer string) [][2]string {
	dir := path.Join(runtime.LayersDir, layer)
	switch layer {
	case "pip":
		return [][2]string{{"PYTHONPATH", dir}, {"PATH", dir + "/bin"}}
	case "npm":
		return [][2]string{{"NODE_PATH", dir + "/node_modules"}, {"PATH", dir + "/node_modules/.bin"}}
	}
	return nil
}

// dataFactor is RLIMIT_DATA as a multiple of the memory limit. It counts mapped memory, not used memory: a thread's stack is 8 MiB, and Java maps its heap in
// advance. With a factor of 1, a Java program of a dozen threads fails at 512 MiB.
const dataFactor = 2

// Rlimits returns the rlimits of docs/compatibility.md#limits-and-defaults. A process with several threads uses CPU time faster than wall time, so its cap
// grows with the number of cores: all of the machine's if they are not limited. It only has to catch processes that outlive the timeout. The size of a
// file is only limited for memory files (memfd_create) that no limit on memory counts: every other place has the cap of its file system.
func (p *Placement) Rlimits() map[string]uint64 {
	l := p.Limits
	limits := map[string]uint64{
		"nofile": uint64(l.NoFile),
		"nproc":  uint64(l.NProc),
		"core":   0,
		"cpu":    CPUSeconds(p.InForce()),
	}
	if p.Caps.Protection(runtime.ProtectDisk).Enforced && !p.Caps.Protection(runtime.ProtectMemory).Enforced {
		limits["fsize"] = uint64(max(l.WorkspaceMB, l.TmpMB, l.MemoryMB))<<20 + 1 // a file that fills the workspace fails first, with ENOSPC instead of a signal
	}
	if p.Caps.Protection(runtime.ProtectMemory).By == runtime.ByRlimitData {
		limits["data"] = dataFactor * uint64(l.MemoryMB) << 20
	}
	return limits
}

// CPUSeconds returns the rlimit of CPU time by the limits in force.
func CPUSeconds(l belljar.Limits) uint64 {
	cores := max(1, l.CPU)
	if l.CPU == 0 {
		cores = float64(host.NumCPU())
	}
	return uint64(math.Ceil(l.TimeoutSec*cores)) + 2
}

// TmpInWorkspace reports whether temporary files belong in TmpDir of the workspace: programs may execute files, which /tmp does not
// permit or has too little room for.
func (p *Placement) TmpInWorkspace() bool {
	return p.Exec && !p.Caps.SharedTmp && !p.Workspace.ReadOnly
}

// Environment returns the whole environment of a command that starts in dir ("" is the workspace): Belljar's variables, overridden by the image's, and then
// by each of over.
func (p *Placement) Environment(dir string, over ...map[string]string) []string {
	env := map[string]string{
		"HOME":    belljar.WorkspaceDir,
		"PWD":     belljar.WorkspaceDir,
		"USER":    user,
		"LOGNAME": user,
		"LANG":    "C.UTF-8",
		"PATH":    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin",
		"TMPDIR":  "/tmp",
		"TERM":    "dumb",
	}
	if p.TmpInWorkspace() {
		env["TMPDIR"] = path.Join(belljar.WorkspaceDir, TmpDir)
	}
	if p.Image.GoCache != "" {
		env["GOCACHE"] = runtime.GoCacheDir
	}
	if dir != "" {
		env["PWD"] = dir
	}
	if p.Egress != nil {
		env["BELLJAR_PROXY"] = "http://" + net.JoinHostPort(wire.ResolverAddr, strconv.Itoa(wire.FrontPort))
	}
	for _, pair := range p.Image.Env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	maps.Copy(env, p.Env)
	if p.Broker != nil {
		p.Broker.environment(env)
	}
	for _, more := range over {
		maps.Copy(env, more)
	}
	if p.Broker != nil {
		p.Broker.java(env)
	}
	for _, l := range p.Image.Layers {
		for _, v := range layerPaths(l.Name) {
			if env[v[0]] != "" {
				v[1] = env[v[0]] + ":" + v[1]
			}
			env[v[0]] = v[1]
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
