// Package placement states where and how a sandbox is made: on which host, from which image, under which limits and
// protections. Admission decides it; runs and sessions keep it.
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

// user is the user inside every sandbox, as its environment names it.
const user = "sandbox"

// TmpDir is the folder of a workspace that allows execution in which programs are built. Where the runtime gives no /tmp that
// will do, it is also where temporary files go. Agents leave it out of lists, archives and what is captured.
const TmpDir = ".tmp"

// Placement is the place of one sandbox.
type Placement struct {
	Host    *Host
	Caps    runtime.Capabilities // what the host can do
	Why     string               // why this host was chosen
	Image   runtime.Root
	Fetch   string // what the image is pulled as, when the sandbox is made; "" if it is here
	Limits  belljar.Limits
	Require []string // protections
	Exec    bool     // programs in the workspace may be executed
	// LacksGoCache means that it is to build Go programs, and its image has no Go build cache yet. To make one executes programs of the
	// image, so it is made for a request that begins, and not for one that waits for an approval.
	LacksGoCache bool
	// Egress is what its programs may reach; nil for nothing. The sandbox itself has no network: what is allowed goes through
	// its agent.
	Egress *egress.Policy
	Broker *Broker // nil without brokered secrets
	// Env and Files, below the workspace, set its tools to the indexes of its presets.
	Env   map[string]string
	Files []belljar.InlineFile

	// Below is what its workspace begins with, and State the folder of a saved state that it is made of; "" for none.
	Below runtime.Below
	State string

	// Park is a command whose interpreter may wait in the sandbox; nil for none.
	Park *runtime.Park

	// Workspace is what /workspace is made of, as reported; zero for memory.
	Workspace belljar.Workspace

	// CompilerMB is the memory of a compiler that runs in the sandbox first, in MiB; 0 for none.
	CompilerMB int
	// InstallMB is what the sandbox may hold in which packages are installed first, with its files, in MiB; 0 for none.
	InstallMB int
}

// MemoryMB is what the sandbox needs for its programs, in MiB: the compiler is one, at another time.
func (p *Placement) MemoryMB() int { return max(p.Limits.MemoryMB, p.CompilerMB) }

// SetDisk puts the workspace on disk. Its files are not in memory, and temporary ones of programs that build are among them.
func (p *Placement) SetDisk(w belljar.Workspace, mb int) {
	if !w.OnDisk() {
		return
	}
	p.Workspace, p.Limits.WorkspaceMB, p.Caps.SharedTmp = w.Disk(mb), mb, false
}

// InMemory makes the placement that of a side sandbox, whose workspace is in memory and not larger than so many MiB.
func (p *Placement) InMemory(most int) {
	if p.Workspace.OnDisk() {
		p.Workspace, p.Limits.WorkspaceMB = belljar.Workspace{}, min(p.Limits.WorkspaceMB, most)
	}
}

// FilesMB is what the files of the workspace may hold in memory, in MiB.
func (p *Placement) FilesMB() int {
	if p.Workspace.OnDisk() {
		return 0
	}
	return p.Limits.WorkspaceMB
}

// Bind makes the limits those in force. Where a sandbox has ids of its own, nproc is also what holds its programs to the
// limit on processes, and leaves its agent out of that.
func (p *Placement) Bind() {
	if p.Caps.Protection(runtime.ProtectPids).Enforced {
		p.Limits.NProc = min(p.Limits.NProc, p.Limits.Pids)
	}
}

// InForce is the limits as they are reported: one that nothing holds the sandbox to is 0.
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

// Spec is the sandbox as its runtime makes it.
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

// layerPaths are the variables by which programs find what is in a layer. What the image or the caller lists there comes first.
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

// dataFactor is RLIMIT_DATA as a multiple of the memory limit. It counts what a process maps, not what it touches: a thread's
// stack is 8 MiB, and Java maps its heap ahead. With the limit itself, a Java program of a dozen threads fails at 512 MiB.
const dataFactor = 2

// Rlimits are those of docs/compatibility.md#limits-and-defaults. A process with several threads uses CPU time faster than the clock runs, so the cap on that
// grows with the cores: all of this machine's where nothing limits them. It only has to catch what outlives the clock's. There is none on files where
// nothing limits the workspace.
func (p *Placement) Rlimits() map[string]uint64 {
	l := p.Limits
	cores := max(1, l.CPU)
	if !p.Caps.Protection(runtime.ProtectCPU).Enforced {
		cores = max(cores, float64(host.NumCPU()))
	}
	limits := map[string]uint64{
		"nofile": uint64(l.NoFile),
		"nproc":  uint64(l.NProc),
		"core":   0,
		"cpu":    uint64(math.Ceil(l.TimeoutSec*cores)) + 2,
	}
	if p.Caps.Protection(runtime.ProtectDisk).Enforced {
		limits["fsize"] = uint64(max(l.WorkspaceMB, l.TmpMB))<<20 + 1 // a file that fills the workspace meets its end first, which is ENOSPC and no signal
	}
	if p.Caps.Protection(runtime.ProtectMemory).By == runtime.ByRlimitData {
		limits["data"] = dataFactor * uint64(l.MemoryMB) << 20
	}
	return limits
}

// Environment is the whole environment of a command that starts in dir ("" is the workspace): Belljar's, over it the image's,
// and over that each of the others.
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
	if p.Exec && !p.Caps.SharedTmp && !p.Workspace.ReadOnly {
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
