package docker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// Sizes that a sandbox needs in addition to its programs.
const (
	runBytes = 16 << 20
	shmBytes = 64 << 20
	// agentTasks is room for the agent's threads and a keeper for each command.
	agentTasks = 64
)

// Resources that a kernel of the sandbox's own needs in addition. The engine's host sees all of it as one program, whose threads are
// all that the host's limit of processes counts. The limit for programs is that kernel's own RLIMIT_NPROC. The memory of one in user
// space counts; a virtual machine gets its memory from its OCI runtime.
const (
	kernelBytes     = 128 << 20
	kernelTasks     = 512
	kernelTasksEach = 4 // for each process of a program
)

// hostname is the host name of every sandbox.
const hostname = "belljar"

// The agent's place in every container.
const (
	agentDir  = "/.belljar"
	agentName = "belljar-agent"
)

// Labels of Belljar's containers, volumes and images on an engine.
const (
	labelInstallation = "belljar.installation"
	labelLifetime     = "belljar.lifetime"
	labelPids         = "belljar.pids"  // limit of processes of programs
	labelAgent        = "belljar.agent" // on a volume: the agent's digest
	labelImage        = "belljar.image" // on an imported image: its digest
)

// plan holds the settings of one container.
type plan struct {
	name    string
	config  *container.Config
	host    *container.HostConfig
	dropped error // of an earlier request, whose container the engine may still make; nil if there was none
}

// plan turns a spec into a container. It sets every option whose default, in the engine or the image, could weaken the
// isolation.
func (e *engine) plan(spec runtime.Spec, f *facts, img image, volume string) (*plan, error) {
	filter, err := execFilter(f.arch())
	if err != nil {
		return nil, &runtime.StepError{Step: stepSeccomp, Err: err}
	}
	config, err := json.Marshal(wire.AgentConfig{
		Stdio: true, LeaseMS: spec.Lease.Milliseconds(), Workspace: belljar.WorkspaceDir, ExecFilter: filter, Init: true, Relay: true,
	})
	if err != nil {
		return nil, err
	}
	uid, gid := randomIDs(f.mapped())
	detached := spec.Lifetime == runtime.LifetimeDetached
	p := &plan{name: e.container(spec.ID)}
	p.config = &container.Config{
		Image: img.id, Hostname: hostname, User: fmt.Sprintf("%d:%d", uid, gid), WorkingDir: "/",
		Entrypoint: []string{path.Join(agentDir, agentName)}, Cmd: []string{string(config)}, Env: agentEnv(),
		OpenStdin: true, StdinOnce: !detached, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		// Otherwise the engine would run the image's own health check in the container.
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, StopSignal: "SIGKILL",
		Labels: map[string]string{
			labelInstallation: e.opts.Installation, labelLifetime: string(spec.Lifetime),
			labelPids: strconv.Itoa(min(spec.Limits.Pids, spec.Limits.NProc)),
		},
	}
	p.host = e.hostConfig(spec, f, img, volume, uid, gid)
	return p, nil
}

// agentEnv overrides the variables that the agent's Go runtime reads, so that an image cannot set them.
func agentEnv() []string {
	return []string{"GOMAXPROCS=1", "GOTRACEBACK=none", "GOGC=25", "GOMEMLIMIT=64MiB", "GODEBUG="}
}

func (e *engine) hostConfig(spec runtime.Spec, f *facts, img image, volume string, uid, gid int) *container.HostConfig {
	l := spec.Limits
	tmp := int64(l.TmpMB) << 20
	memory := int64(l.MemoryMB)<<20 + spec.Workspace.Bytes + tmp + runBytes + shmBytes
	pids := int64(l.Pids) + agentTasks
	// The engine's limit counts refusals, so nproc, which does not, is a little higher.
	tasks, each := pids, pids+agentTasks
	no := false
	// Always name the OCI runtime: the engine's default may have changed to a weaker one since it was reported.
	ociRuntime, _ := f.ociRuntime(e.opts.OCIRuntime)
	if !f.PidsLimit { // without the engine's limit, a command gets its whole nproc limit, which cannot exceed this one
		each = max(each, int64(l.NProc)+agentTasks)
	}
	class := f.isolation(ociRuntime)
	if ownKernel(class) {
		tasks, each = kernelTasks+kernelTasksEach*int64(l.Pids), pids
	}
	if class == runtime.IsolationUserKernel {
		memory += kernelBytes
	}
	cpu := l.CPU
	if f.NCPU > 0 { // the engine refuses more than its own, which means the same
		cpu = min(cpu, float64(f.NCPU))
	}
	if !f.CPUCfsQuota { // the engine refuses a quota that it cannot enforce; it drops other such limits
		cpu = 0
	}
	h := &container.HostConfig{
		ReadonlyRootfs: true, NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private",
		CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges", "seccomp=" + e.seccomp},
		// The agent's relay is the name server. Without this setting engines write the name servers of their host into every
		// container.
		DNS: []netip.Addr{netip.MustParseAddr(wire.ResolverAddr)}, DNSSearch: []string{"."}, DNSOptions: []string{"ndots:0", "timeout:3", "attempts:2"},
		// The agent has no capability, but must bind the ports of DNS and of the web. Most engines allow that by default.
		Sysctls:   map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"},
		LogConfig: container.LogConfig{Type: "none"}, RestartPolicy: container.RestartPolicy{Name: "no"},
		Runtime: ociRuntime, Init: &no, MaskedPaths: masked(), ReadonlyPaths: readOnly(), ShmSize: shmBytes,
		Tmpfs: map[string]string{
			belljar.WorkspaceDir: tmpfs(spec.Workspace.Bytes, spec.Workspace.Inodes, "0755", spec.Workspace.Exec, uid, gid),
			"/tmp":               tmpfs(tmp, int64(l.Inodes), "1777", spec.Workspace.Exec, uid, gid),
			"/run":               tmpfs(runBytes, int64(l.Inodes), "0755", false, uid, gid),
			"/dev/shm":           tmpfs(shmBytes, int64(l.Inodes), "1777", false, uid, gid),
		},
		Mounts: []mount.Mount{{
			Type: mount.TypeVolume, Source: volume, Target: agentDir, ReadOnly: true, VolumeOptions: &mount.VolumeOptions{NoCopy: true},
		}},
		Resources: container.Resources{
			CgroupParent: e.opts.CgroupParent, Memory: memory, MemorySwap: memory, NanoCPUs: int64(cpu * 1e9), PidsLimit: &tasks,
			Ulimits: []*container.Ulimit{
				{Name: "nofile", Soft: max(int64(l.NoFile), agentFiles), Hard: e.files(l, f)},
				{Name: "nproc", Soft: each, Hard: each},
				{Name: "core", Soft: 0, Hard: 0},
				{Name: "sigpending", Soft: 1024, Hard: 1024},
				{Name: "msgqueue", Soft: 800 << 10, Hard: 800 << 10},
				{Name: "memlock", Soft: 8 << 20, Hard: 8 << 20},
			},
		},
	}
	// The kernel charges no cgroup for connections that no program has accepted, nor for copies of sent packets. A network namespace that
	// belongs to a user namespace has these settings since 6.3.
	if !ownKernel(class) && (!f.mapped() || f.since(6, 3)) {
		h.Sysctls["net.core.somaxconn"] = "128"
		if f.since(6, 18) { // before, the latter is one setting of the whole host
			h.Sysctls["net.core.tstamp_allow_data"] = "0"
		}
	}
	for _, l := range spec.Root.Layers {
		h.Mounts = append(h.Mounts, mount.Mount{
			Type: mount.TypeBind, Source: l.Dir, Target: l.Path(), ReadOnly: true,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	}
	if e.opts.AppArmor != "" {
		h.SecurityOpt = append(h.SecurityOpt, "apparmor="+e.opts.AppArmor)
	}
	// An image's volumes would be folders on the engine's disk, writable and without a limit, below our own folders, too. The engine
	// leaves out only those on whose very path something else is mounted.
	for _, place := range img.volumes {
		if _, ours := h.Tmpfs[place]; !ours && place != agentDir {
			h.Tmpfs[place] = "size=64k,nr_inodes=16,mode=0555,ro,noexec,nosuid,nodev"
		}
	}
	return h
}

// agentFiles is how many files the agent may open: streams and the pipes of commands.
const agentFiles = 4096

// files is the hard limit of open files in a sandbox. Commands may have more than the sandbox's own limit, so it is the most that requests may
// ask for, as far as the engine can set that.
func (e *engine) files(l belljar.Limits, f *facts) int64 {
	least := max(int64(l.NoFile), agentFiles)
	if f.has("rootless") { // it cannot exceed its user's limit
		return least
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(least, cmp.Or(e.mostFiles, int64(belljar.MaxLimits().NoFile)))
}

// fewerFiles lowers the hard limit for the next sandboxes, if that of p may be the reason why it failed; false if it is not, or cannot be lower.
func (e *engine) fewerFiles(err error, p *plan, l belljar.Limits) bool {
	had := p.host.Ulimits[0].Hard
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "rlimit") || had <= max(int64(l.NoFile), agentFiles) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mostFiles = min(cmp.Or(e.mostFiles, had), had/4)
	return true
}

func tmpfs(bytes, inodes int64, mode string, exec bool, uid, gid int) string {
	can := "noexec"
	if exec {
		can = "exec"
	}
	return fmt.Sprintf("rw,size=%d,nr_inodes=%d,mode=%s,uid=%d,gid=%d,nosuid,nodev,%s", bytes, inodes, mode, uid, gid, can)
}

// masked lists the paths that containers must not see: all that engines hide by default, and /sys.
func masked() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/proc/kmsg", "/proc/kallsyms", "/proc/kpagecount", "/proc/kpageflags",
		"/proc/sysrq-trigger", "/proc/key-users", "/proc/vmallocinfo", "/proc/slabinfo", "/proc/modules", "/proc/iomem", "/proc/ioports",
		"/proc/softirqs", "/proc/diskstats", "/proc/partitions", "/proc/config.gz", "/proc/cmdline", "/proc/bus", "/proc/driver",
		"/proc/fs", "/proc/irq", "/proc/tty", "/sys", "/dev/mqueue",
		// Files that show all of the host, and its boot. The boot_id is empty: an engine cannot mount one of the sandbox's
		// own there.
		"/proc/locks", "/proc/buddyinfo", "/proc/zoneinfo", "/proc/pagetypeinfo", "/proc/pressure", "/proc/crypto",
		"/proc/sys/fs/aio-nr", "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr", "/proc/sys/kernel/random/boot_id",
		// Files whose changes can be awaited, in one queue for the whole host.
		"/proc/swaps", "/proc/sys/kernel/domainname",
	}
}

// readOnly lists the paths that containers must not write, as engines have it by default.
func readOnly() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"}
}

// randomIDs returns a user and a group for one sandbox only. A user namespace has few.
func randomIDs(mapped bool) (uid, gid int) {
	first, last := 100_000, 1<<31-1
	if mapped {
		first, last = 10_000, 65_000
	}
	return first + rand.IntN(last-first), first + rand.IntN(last-first)
}

// check refuses requests that this runtime does not support, before anything is made.
func (e *engine) check(spec runtime.Spec, f *facts) error {
	switch {
	case !belljar.ValidID(spec.ID):
		return fmt.Errorf("%q is not a sandbox id", spec.ID)
	case spec.Network.Mode != "" && spec.Network.Mode != runtime.NetworkNone:
		return &runtime.StepError{Step: stepNetwork, Err: fmt.Errorf("network mode %q is not available", spec.Network.Mode)}
	case spec.Workspace.Medium == runtime.MediumDisk:
		return &runtime.StepError{Step: stepMount, Err: errDisk}
	case spec.Workspace.Bytes <= 0 || spec.Workspace.Inodes <= 0:
		return &runtime.StepError{Step: stepMount, Err: errSize}
	case spec.Workspace.Below.Dir != "":
		return &runtime.StepError{Step: stepMount, Err: errors.ErrUnsupported}
	}
	caps := e.capabilities(f)
	if len(spec.Root.Layers) > 0 && !caps.Layers {
		return &runtime.StepError{Step: stepMount, Err: errors.New("layers are not available: " + caps.NoLayers.Detail), Hint: caps.NoLayers.Hint}
	}
	if !caps.Available {
		why := caps.Reasons[0]
		return &runtime.StepError{Step: why.Step, Err: fmt.Errorf("docker is not available: %s", why.Detail), Hint: why.Hint}
	}
	if spec.Isolation != "" && !caps.Isolation.AtLeast(spec.Isolation) {
		return &runtime.StepError{
			Step: stepEngine, Err: fmt.Errorf("the engine isolates by %s now, with %s, and no longer by %s", caps.Isolation, caps.OCIRuntime, spec.Isolation),
			Hint: "name the OCI runtime with SANDBOX_DOCKER_OCI_RUNTIME, whatever the engine's default is",
		}
	}
	require := append(slices.Clone(spec.Require), runtime.ProtectFilesystem, runtime.ProtectNetwork)
	for _, name := range require {
		if p := caps.Protection(name); !p.Enforced {
			return &runtime.StepError{Step: name, Err: fmt.Errorf("%s cannot be enforced here", name), Hint: p.Hint}
		}
	}
	return nil
}
