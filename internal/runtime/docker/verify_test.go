package docker

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// able returns the facts of an engine that supports everything.
func able() *facts {
	return &facts{Info: system.Info{
		OSType: "linux", Architecture: "x86_64", MemoryLimit: true, SwapLimit: true, PidsLimit: true, CPUCfsQuota: true, CgroupVersion: "2",
		SecurityOptions: []string{"name=seccomp,profile=builtin", "name=apparmor"}, DefaultRuntime: "runc",
		Runtimes: map[string]system.RuntimeWithStatus{"runc": {}, "runsc": {Runtime: system.Runtime{Path: "/usr/bin/runsc"}}}, ServerVersion: "99",
	}}
}

// echoed returns a plan and the report of an engine that has all of it in force.
func echoed(t *testing.T) (*plan, container.InspectResponse) {
	t.Helper()
	r := &engine{opts: Options{Installation: "test", AppArmor: "tight", OCIRuntime: "runsc"}, seccomp: `{"defaultAction":"SCMP_ACT_ERRNO"}`}
	limits := belljar.DefaultLimits()
	p, err := r.plan(runtime.Spec{
		ID: belljar.NewID(), Limits: limits, Workspace: runtime.Workspace{Bytes: 1 << 20, Inodes: 100}, Lifetime: runtime.LifetimeDetached,
	}, able(), image{id: "sha256:1", volumes: []string{"/data", "/tmp"}}, "agent")
	if err != nil {
		t.Fatal(err)
	}
	got := container.InspectResponse{HostConfig: copyOf(t, p.host), Config: copyOf(t, p.config), AppArmorProfile: "tight"}
	got.Mounts = []container.MountPoint{{Type: mount.TypeVolume, Name: "agent", Destination: agentDir}}
	return p, got
}

func copyOf[T any](t *testing.T, v *T) *T {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestHonestEngine(t *testing.T) {
	p, got := echoed(t)
	if missing := differences(p, got, able()); len(missing) > 0 {
		t.Errorf("%v", missing)
	}
	// Some engines write out what others abbreviate.
	got.HostConfig.CapDrop = strings.Fields("CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_FSETID CAP_KILL CAP_NET_BIND_SERVICE CAP_SETFCAP CAP_SETGID CAP_SETPCAP CAP_SETUID CAP_SYS_CHROOT")
	if missing := differences(p, got, able()); len(missing) > 0 {
		t.Errorf("%v", missing)
	}
}

// If an engine does less than requested, in any respect, it is detected.
func TestDifferences(t *testing.T) {
	yes := true
	for name, change := range map[string]func(*container.InspectResponse){
		"no host config":   func(c *container.InspectResponse) { c.HostConfig = nil },
		"label":            func(c *container.InspectResponse) { delete(c.Config.Labels, labelInstallation) },
		"lifetime":         func(c *container.InspectResponse) { c.Config.Labels[labelLifetime] = "" },
		"image":            func(c *container.InspectResponse) { c.Config.Image = "" },
		"restart":          func(c *container.InspectResponse) { c.HostConfig.RestartPolicy.Name = "always" },
		"working folder":   func(c *container.InspectResponse) { c.Config.WorkingDir = "/elsewhere" },
		"host name":        func(c *container.InspectResponse) { c.Config.Hostname = "engine" },
		"init":             func(c *container.InspectResponse) { c.HostConfig.Init = &yes },
		"init by default":  func(c *container.InspectResponse) { c.HostConfig.Init = nil },
		"name servers":     func(c *container.InspectResponse) { c.HostConfig.DNS = nil },
		"search domains":   func(c *container.InspectResponse) { c.HostConfig.DNSSearch = nil },
		"no agent":         func(c *container.InspectResponse) { c.Mounts = nil },
		"root":             func(c *container.InspectResponse) { c.Config.User = "" },
		"another program":  func(c *container.InspectResponse) { c.Config.Entrypoint = []string{"/bin/sh"} },
		"terminal":         func(c *container.InspectResponse) { c.Config.Tty = true },
		"stdin closes":     func(c *container.InspectResponse) { c.Config.StdinOnce = true },
		"health check":     func(c *container.InspectResponse) { c.Config.Healthcheck.Test = []string{"CMD", "/evil"} },
		"environment":      func(c *container.InspectResponse) { c.Config.Env = []string{"GODEBUG=execerrdot=0"} },
		"capabilities":     func(c *container.InspectResponse) { c.HostConfig.CapDrop = nil },
		"capability added": func(c *container.InspectResponse) { c.HostConfig.CapAdd = []string{"CAP_SYS_ADMIN"} },
		"privileged":       func(c *container.InspectResponse) { c.HostConfig.Privileged = true },
		"groups":           func(c *container.InspectResponse) { c.HostConfig.GroupAdd = []string{"0"} },
		"new privileges":   func(c *container.InspectResponse) { c.HostConfig.SecurityOpt = c.HostConfig.SecurityOpt[1:] },
		"old privileges":   func(c *container.InspectResponse) { c.HostConfig.SecurityOpt[0] = "no-new-privileges=false" },
		"no seccomp":       func(c *container.InspectResponse) { c.HostConfig.SecurityOpt = c.HostConfig.SecurityOpt[:1] },
		"unconfined": func(c *container.InspectResponse) {
			c.HostConfig.SecurityOpt = append(c.HostConfig.SecurityOpt, "seccomp=unconfined")
		},
		"another seccomp":  func(c *container.InspectResponse) { c.HostConfig.SecurityOpt[1] = "seccomp={}" },
		"no apparmor":      func(c *container.InspectResponse) { c.AppArmorProfile = "" },
		"network":          func(c *container.InspectResponse) { c.HostConfig.NetworkMode = "bridge" },
		"ipc":              func(c *container.InspectResponse) { c.HostConfig.IpcMode = "host" },
		"pid":              func(c *container.InspectResponse) { c.HostConfig.PidMode = "host" },
		"pid of another":   func(c *container.InspectResponse) { c.HostConfig.PidMode = "container:other" },
		"uts":              func(c *container.InspectResponse) { c.HostConfig.UTSMode = "host" },
		"user namespace":   func(c *container.InspectResponse) { c.HostConfig.UsernsMode = "host" },
		"cgroup namespace": func(c *container.InspectResponse) { c.HostConfig.CgroupnsMode = "host" },
		"oci runtime":      func(c *container.InspectResponse) { c.HostConfig.Runtime = "runc" },
		"device": func(c *container.InspectResponse) {
			c.HostConfig.Devices = []container.DeviceMapping{{PathOnHost: "/dev/kvm"}}
		},
		"ports":             func(c *container.InspectResponse) { c.HostConfig.PublishAllPorts = true },
		"sysctls":           func(c *container.InspectResponse) { c.HostConfig.Sysctls = map[string]string{"kernel.x": "1"} },
		"memory":            func(c *container.InspectResponse) { c.HostConfig.Memory = 0 },
		"swap":              func(c *container.InspectResponse) { c.HostConfig.MemorySwap = -1 },
		"no end in memory":  func(c *container.InspectResponse) { c.HostConfig.OomKillDisable = &yes },
		"pids":              func(c *container.InspectResponse) { c.HostConfig.PidsLimit = nil },
		"cpu":               func(c *container.InspectResponse) { c.HostConfig.NanoCPUs = 0 },
		"ulimits":           func(c *container.InspectResponse) { c.HostConfig.Ulimits = nil },
		"writable image":    func(c *container.InspectResponse) { c.HostConfig.ReadonlyRootfs = false },
		"bind":              func(c *container.InspectResponse) { c.HostConfig.Binds = []string{"/:/host"} },
		"volumes of others": func(c *container.InspectResponse) { c.HostConfig.VolumesFrom = []string{"other"} },
		"tmpfs":             func(c *container.InspectResponse) { delete(c.HostConfig.Tmpfs, "/tmp") },
		"tmpfs size":        func(c *container.InspectResponse) { c.HostConfig.Tmpfs["/tmp"] = "rw" },
		"log":               func(c *container.InspectResponse) { c.HostConfig.LogConfig.Type = "json-file" },
		"masked":            func(c *container.InspectResponse) { c.HostConfig.MaskedPaths = nil },
		"read-only":         func(c *container.InspectResponse) { c.HostConfig.ReadonlyPaths = nil },
		"writable agent":    func(c *container.InspectResponse) { c.Mounts[0].RW = true },
		"mount": func(c *container.InspectResponse) {
			c.Mounts = append(c.Mounts, container.MountPoint{Type: mount.TypeBind, Source: "/", Destination: "/host"})
		},
		"volume of the image": func(c *container.InspectResponse) {
			c.Mounts = append(c.Mounts, container.MountPoint{Type: mount.TypeVolume, Name: "0123", Destination: "/data", RW: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, got := echoed(t)
			change(&got)
			if missing := differences(p, got, able()); len(missing) == 0 {
				t.Error("it is not noticed")
			}
		})
	}
}

// A container has the settings of its network that its engine's kernel has.
func TestSettingsOfSockets(t *testing.T) {
	for _, c := range []struct {
		kernel, option string
		want           int
	}{{"5.15.0-91-generic", "", 2}, {"6.17.1", "", 2}, {"6.18.0+", "", 3}, {"7.0", "name=userns", 3}, {"6.3.1", "name=userns", 2}, {"6.2", "name=rootless", 1}, {"", "name=userns", 1}} {
		f := able()
		f.KernelVersion, f.SecurityOptions = c.kernel, append(f.SecurityOptions, c.option)
		e := &engine{opts: Options{Installation: "test", OCIRuntime: "runc"}}
		p, err := e.plan(runtime.Spec{ID: belljar.NewID(), Limits: belljar.DefaultLimits(), Workspace: runtime.Workspace{Bytes: 1 << 20, Inodes: 100}}, f, image{id: "sha256:1"}, "agent")
		if err != nil {
			t.Fatal(err)
		}
		if got := p.host.Sysctls; len(got) != c.want || c.want > 1 && got["net.core.somaxconn"] != "128" {
			t.Errorf("kernel %q, %s: %v, want %d", c.kernel, c.option, got, c.want)
		}
		report := container.InspectResponse{HostConfig: copyOf(t, p.host), Config: copyOf(t, p.config)}
		before := len(differences(p, report, f))
		delete(report.HostConfig.Sysctls, "net.core.somaxconn")
		if missing := differences(p, report, f); c.want > 1 && len(missing) <= before {
			t.Errorf("kernel %q, %s: it is not noticed that the setting is missing: %v", c.kernel, c.option, missing)
		}
	}
}

// A feature that an engine lacks, and that Probe reports as missing, is not checked again.
func TestDifferencesOfAWeakEngine(t *testing.T) {
	p, got := echoed(t)
	f := able()
	f.MemoryLimit, f.PidsLimit, f.CPUCfsQuota = false, false, false
	got.HostConfig.Memory, got.HostConfig.PidsLimit, got.HostConfig.NanoCPUs = 0, nil, 0
	if missing := differences(p, got, f); len(missing) > 0 {
		t.Errorf("%v", missing)
	}
	r := &engine{opts: Options{Installation: "test"}}
	limits := belljar.DefaultLimits()
	weak, err := r.plan(runtime.Spec{ID: belljar.NewID(), Limits: limits}, f, image{id: "sha256:1"}, "agent")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range weak.host.Ulimits { // these must not be below the limits of commands
		if u.Name == "nproc" && u.Hard <= int64(limits.NProc) || u.Name == "nofile" && u.Hard < int64(limits.NoFile) {
			t.Errorf("%s %d", u.Name, u.Hard)
		}
	}
	caps := r.capabilities(f)
	for _, name := range []string{runtime.ProtectMemory, runtime.ProtectPids, runtime.ProtectCPU} {
		if p := caps.Protection(name); p.Enforced || p.Hint == "" {
			t.Errorf("%+v", p)
		}
	}
}

// Commands may have more open files than their sandbox, as far as the engine can set that.
func TestFilesOfCommands(t *testing.T) {
	r, f, l := &engine{}, able(), belljar.DefaultLimits()
	made := func() *plan {
		p, err := r.plan(runtime.Spec{ID: belljar.NewID(), Limits: l}, f, image{id: "sha256:1"}, "agent")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	refused := errors.New("runc create failed: error setting rlimit type 7: operation not permitted")
	if r.fewerFiles(errors.New("no space left on device"), made(), l) || r.fewerFiles(nil, made(), l) {
		t.Error("lowered for another reason")
	}
	for _, want := range []int64{65536, 16384, 4096} {
		p, other := made(), made() // two at the same time
		if got := p.host.Ulimits[0].Hard; got != want || r.files(l, f) != want {
			t.Errorf("%d instead of %d", got, want)
		}
		for _, p := range []*plan{p, other} {
			if lower := r.fewerFiles(refused, p, l); lower != (want > agentFiles) {
				t.Errorf("lower than %d: %v", want, lower)
			}
		}
	}
	l.NoFile = 10000
	if got := r.files(l, f); got != 10000 {
		t.Errorf("a sandbox with 10000 gets %d", got)
	}
	f.SecurityOptions = append(f.SecurityOptions, "name=rootless")
	if got := (&engine{}).files(belljar.DefaultLimits(), f); got != agentFiles {
		t.Errorf("rootless: %d", got)
	}
}

func TestIsolation(t *testing.T) {
	f := &facts{Info: system.Info{Runtimes: map[string]system.RuntimeWithStatus{
		"runc": {Runtime: system.Runtime{Path: "runc"}}, "runsc": {Runtime: system.Runtime{Path: "/usr/local/bin/runsc"}},
		"safe": {Runtime: system.Runtime{Path: "/opt/runsc-release/runsc"}}, "kata": {Runtime: system.Runtime{Type: "io.containerd.kata.v2"}},
		"runsc-fake": {Runtime: system.Runtime{Path: "/usr/bin/runc"}}, "gvisor": {Runtime: system.Runtime{Type: "io.containerd.runsc.v1"}},
		"ours": {Runtime: system.Runtime{Path: "/opt/belljar/bin/belljar-runsc"}},
	}}}
	for name, want := range map[string]runtime.Isolation{
		"runc": runtime.IsolationNamespace, "runsc": runtime.IsolationUserKernel, "safe": runtime.IsolationUserKernel,
		"kata": runtime.IsolationMicroVM, "runsc-fake": runtime.IsolationNamespace, "gvisor": runtime.IsolationUserKernel, "ours": runtime.IsolationUserKernel,
		"crun": runtime.IsolationNamespace, "": runtime.IsolationNamespace,
	} {
		if got := f.isolation(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// The engine's host counts the threads of a kernel, not the processes in a sandbox that has one. A virtual machine gets no memory for
// its kernel in addition: its OCI runtime sizes it.
func TestOwnKernels(t *testing.T) {
	f := able()
	f.Runtimes["kata"] = system.RuntimeWithStatus{Runtime: system.Runtime{Type: "io.containerd.kata.v2"}}
	plain := int64(0)
	for _, c := range []struct {
		oci    string
		own    bool
		memory int64 // more than with runc
		scope  string
	}{{"runc", false, 0, "process"}, {"runsc", true, kernelBytes, "sandbox"}, {"kata", true, 0, "process"}} {
		r := &engine{opts: Options{Installation: "test", OCIRuntime: c.oci}}
		caps := r.capabilities(f)
		pids := caps.Protection(runtime.ProtectPids)
		if !pids.Enforced || strings.Contains(pids.By, "own") != c.own || (pids.Weaker != "") != c.own || caps.OOMScope != c.scope {
			t.Errorf("%s: %+v, oom_scope %s", c.oci, pids, caps.OOMScope)
		}
		limits := belljar.DefaultLimits()
		p, err := r.plan(runtime.Spec{ID: belljar.NewID(), Limits: limits, Workspace: runtime.Workspace{Bytes: 1 << 20, Inodes: 100}}, f, image{id: "sha256:1"}, "agent")
		if err != nil {
			t.Fatal(err)
		}
		if c.oci == "runc" {
			plain = p.host.Memory
		}
		if p.host.Memory-plain != c.memory || (*p.host.PidsLimit > int64(limits.Pids)+agentTasks) != c.own {
			t.Errorf("%s: memory %d, %d more; %d tasks", c.oci, p.host.Memory, p.host.Memory-plain, *p.host.PidsLimit)
		}
	}
}
