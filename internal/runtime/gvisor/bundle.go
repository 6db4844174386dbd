//go:build linux

package gvisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// Places in the jar's root, which only runsc and the keep see.
const (
	placeRunsc  = "runsc"
	placeState  = "state"  // state of runsc
	placeBundle = "bundle" // configuration of runsc
	placeRoot   = placeBundle + "/rootfs"
	placeDisk   = "disk"  // disk of the workspace
	placeSpare  = "spare" // files of ours that cover an image's
	pidFile     = "/" + placeState + "/pid"
	boxID       = "box" // runsc's name for the sandbox, the only one in its state
)

// placeAgent is the agent's path in the sandbox's root, which programs can see. It hides an image's file of that name.
const placeAgent = ".belljar-agent"

// ociVersion is the version of the bundle's format.
const ociVersion = "1.1.0"

// memoryAnnotation is the limit of the programs' memory, in bytes; see gvisor/memory.go.
const memoryAnnotation = "belljar.memory"

// memoryText returns the annotation's value. It always has the same length and states the limit twice, so that it can be replaced while
// gVisor reads it.
func memoryText(bytes int64) string { return fmt.Sprintf("%019d %019d", bytes, bytes) }

// setMemory writes another memory limit for programs into the configuration of a living sandbox.
func setMemory(folder string, most int64) error {
	file, err := os.OpenFile(filepath.Join(folder, configName), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	config, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	key := []byte(`"` + memoryAnnotation + `":"`)
	at := bytes.Index(config, key)
	if at < 0 {
		return fmt.Errorf("%s has no limit of memory", configName)
	}
	_, err = file.WriteAt([]byte(memoryText(most)), int64(at+len(key)))
	return err
}

// agentEnv is all of the agent's environment. The agent mostly waits, and has little memory.
func agentEnv() []string {
	return []string{"GOMAXPROCS=1", "GOTRACEBACK=none", "GOGC=25", "GOMEMLIMIT=64MiB"}
}

// agentCaps are all of the agent's capabilities, which are valid in gVisor's kernel only: to become the sandbox's user, to signal its
// processes, and to read their working folder. No executed program can gain one.
func agentCaps() []string {
	return []string{"CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_PTRACE"}
}

// writeBundle writes the configuration into a file that the jar's users can read.
func (pl *plan) writeBundle(path string) error {
	config, err := pl.bundle()
	if err != nil {
		return err
	}
	pl.configFile = path
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(config)
	return errors.Join(err, file.Chmod(0o644), file.Close())
}

// bundle returns the text of config.json.
func (pl *plan) bundle() ([]byte, error) {
	config, err := json.Marshal(wire.AgentConfig{
		Stdio: true, LeaseMS: pl.lease.Milliseconds(), Workspace: belljar.WorkspaceDir, Fenced: true, Unscored: true, Init: true, Relay: true,
	})
	if err != nil {
		return nil, err
	}
	caps := agentCaps()
	most := uint64(pl.limits.pids + agentTasks) // the agent gives each program the request's limit
	nproc := specs.POSIXRlimit{Type: "RLIMIT_NPROC", Hard: most, Soft: most}
	score := 500 // the keep, which reports the end, is killed last
	spec := specs.Spec{
		Version:  ociVersion,
		Hostname: rootfs.Hostname,
		Root:     &specs.Root{Path: "/" + placeRoot, Readonly: true},
		Process: &specs.Process{
			Args: []string{"/" + placeAgent, string(config)}, Env: agentEnv(), Cwd: "/", NoNewPrivileges: true,
			Capabilities: &specs.LinuxCapabilities{Inheritable: caps, Effective: caps, Permitted: caps},
			Rlimits:      []specs.POSIXRlimit{nproc},
			OOMScoreAdj:  &score,
		},
		Mounts:      pl.mounts(),
		Linux:       &specs.Linux{},
		Annotations: map[string]string{memoryAnnotation: memoryText(pl.limits.programs)},
	}
	for _, kind := range []specs.LinuxNamespaceType{specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace} {
		spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: kind})
	}
	return json.Marshal(spec)
}

// mounts are the file systems of the sandbox in addition to its root. All are the sentry's own, in memory.
func (pl *plan) mounts() []specs.Mount {
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "nodev", "noexec"}},
		// /sys is empty in every sandbox. Without this entry runsc would mount its own.
		{Destination: "/sys", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "noexec", "ro", "size=4096", "nr_inodes=8", "mode=0555"}},
		pl.workspaceMount(),
		pl.tmpfs("/tmp", pl.limits.tmp, pl.limits.inodes, "1777", pl.workspace.Exec),
		pl.tmpfs("/run", pl.limits.run, pl.limits.inodes, "0755", false),
		pl.tmpfs("/dev/shm", pl.limits.shm, pl.limits.inodes, "1777", false),
	}
	for _, p := range pl.root.Parts {
		if p.Kind == rootfs.BindWritable {
			mode := "1777"
			if p.Target == "run" {
				mode = "0755"
			}
			list = append(list, pl.tmpfs("/"+p.Name, againSize(p, pl.asked), pl.limits.inodes, mode, false))
		}
	}
	return list
}

// workspaceMount is the workspace, in memory or on disk. The gofer serves the files on disk, and caches none of them: another sandbox
// may use them, too.
func (pl *plan) workspaceMount() specs.Mount {
	if pl.disk == nil {
		return pl.tmpfs(belljar.WorkspaceDir, pl.workspace.Bytes, pl.workspace.Inodes, "0755", pl.workspace.Exec)
	}
	options := []string{"bind", "nosuid", "nodev"}
	if !pl.workspace.Exec {
		options = append(options, "noexec")
	}
	if pl.workspace.ReadOnly {
		options = append(options, "ro")
	}
	return specs.Mount{Destination: belljar.WorkspaceDir, Type: "bind", Source: "/" + placeDisk, Options: options}
}

// tmpfs is a writable memory file system with hard caps, owned by the sandbox's user.
func (pl *plan) tmpfs(at string, bytes, inodes int64, mode string, exec bool) specs.Mount {
	options := []string{
		"nosuid", "nodev", "size=" + strconv.FormatInt(bytes, 10), "nr_inodes=" + strconv.FormatInt(inodes, 10), "mode=" + mode,
		"uid=" + strconv.Itoa(pl.user.UID), "gid=" + strconv.Itoa(pl.user.GID),
	}
	if !exec {
		options = append(options, "noexec")
	}
	return specs.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs", Options: options}
}

// reserved reports whether Belljar reserves a name in the root, so that an image's file of that name is not shown.
func reserved(name string) bool {
	return name == placeAgent || slices.Contains(rootfs.Reserved(), name)
}

// runscArgs returns a command of runsc, with the flags that all its commands have in common.
func (pl *plan) runscArgs(command string, args ...string) []string {
	argv := []string{
		"/" + placeRunsc,
		"--root=/" + placeState,
		"--platform=" + pl.platform,
		"--network=none",          // no network stack but a loopback
		"--ignore-cgroups",        // our cgroup surrounds everything already
		"--directfs=false",        // only the gofer has files of the host, read-only; the sentry has none
		"--overlay2=none",         // nothing writes to the root
		"--file-access=exclusive", // no other program writes to it either
		"--host-uds=none",         // no sockets of the host
		"--host-fifo=none",        // no pipes of the host
		"--host-settings=ignore",  // not visible from the jar
		"--watchdog-action=panic", // ends a sentry that hangs
		"--app-huge-pages=false",  // otherwise each of hundreds of small programs would take megabytes
		"--net-raw=false",
		"--oci-seccomp=false", // the sentry's kernel refuses calls itself; see gvisor/policy.go
		"--gvisor-marker-file=false",
	}
	argv = append(argv, command)
	return append(argv, append(args, boxID)...)
}

// startArgs returns the command that makes the sandbox, or restores it from a snapshot that is open as descriptor 3.
func (pl *plan) startArgs() []string {
	args := []string{"-bundle=/" + placeBundle, "-pid-file=" + pidFile, "-detach"}
	if pl.snapshot != nil {
		return pl.runscArgs("restore", append(args, "-image-path="+passedFolder)...)
	}
	return pl.runscArgs("run", args...)
}

// Orders of a keep.
const (
	orderPause  = "pause"
	orderResume = "resume"
	orderSave   = "save"
	orderNone   = "none" // a keep refuses it, but only after the order in progress
)

// passedFolder is a folder that a program of the keep gets as descriptor 3.
const passedFolder = "/proc/self/fd/3"

func (pl *plan) orders() map[string][]string {
	return map[string][]string{
		orderPause:  pl.runscArgs("pause"),
		orderResume: pl.runscArgs("resume"),
		orderSave:   pl.runscArgs("checkpoint", "-leave-running", "-image-path="+passedFolder),
	}
}

// template describes how a sandbox was made, as far as a snapshot of it depends on that.
type template struct {
	GVisor    string            `json:"gvisor"` // version
	Platform  string            `json:"platform"`
	Agent     string            `json:"agent"` // name of its file, which is a digest
	Image     string            `json:"image"` // digest, or reference of an image without one
	User      rootfs.User       `json:"user"`
	Workspace runtime.Workspace `json:"workspace"`
	TmpMB     int               `json:"tmp_mb"`
	Inodes    int               `json:"inodes"`
	Pids      int               `json:"pids"`
	Layers    []runtime.Layer   `json:"layers,omitempty"`
	LeaseMS   int64             `json:"lease_ms"` // part of the agent's arguments, which gVisor compares
}

func (r *Runtime) templateOf(spec runtime.Spec) (template, error) {
	agent, err := r.file()
	m := template{
		GVisor: r.runsc.find().version, Platform: r.platform, Agent: path.Base(agent.path), Image: spec.Root.Digest,
		User: rack.User(spec.Root), Workspace: spec.Workspace, TmpMB: spec.Limits.TmpMB, Inodes: spec.Limits.Inodes,
		Pids: min(spec.Limits.Pids, spec.Limits.NProc), Layers: spec.Root.Layers, LeaseMS: spec.Lease.Milliseconds(),
	}
	if m.Image == "" {
		m.Image = spec.Root.Ref
	}
	m.Workspace.ID = ""
	return m, err
}
