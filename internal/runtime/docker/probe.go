package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// coldStart is the approximate time that an engine takes to make and start a container.
const coldStart = 300 * time.Millisecond

// errForeign means that an engine's containers are not Linux ones.
var errForeign = errors.New("the engine does not run Linux containers")

// errMute means that an engine accepts connections but does not answer.
var errMute = errors.New("the engine does not answer")

const (
	hintMute    = "the engine hangs, or its machine is overloaded: check the log of the engine, and restart it"
	hintRefused = "a proxy or an authorization plugin in front of the engine refuses this: configure it to allow Belljar's calls"
)

// answering is how long an engine may take to report its properties or the state of a sandbox: a sixth of the patience,
// which is five seconds by default. A slower engine is of no use to its callers.
func (e *engine) answering() time.Duration { return e.opts.Patience / 6 }

// Probe implements [runtime.Runtime].
func (r *Runtime) Probe(ctx context.Context) (runtime.Capabilities, error) {
	asking, cancel := context.WithTimeoutCause(ctx, r.engine.answering(), errMute)
	defer cancel()
	f, err := r.engine.ask(asking)
	if err != nil && asking.Err() != nil {
		err = context.Cause(asking)
	}
	if err != nil {
		if ctx.Err() != nil {
			return runtime.Capabilities{}, context.Cause(ctx)
		}
		c := runtime.Capabilities{State: runtime.StateHostGated, Isolation: (&facts{}).isolation(r.engine.opts.OCIRuntime), AgentUID: "shared", OCIRuntime: r.engine.opts.OCIRuntime, Start: coldStart}
		c.Reasons = []runtime.Reason{r.engine.whyNot(err)}
		return c, nil
	}
	return r.engine.capabilities(f), nil
}

// triedImages is the number of images that Test tries if their sandboxes fail.
const triedImages = 3

// Test implements [runtime.Tester]. If the engine has no image that it can run, Test makes no sandbox and relies on the
// engine's report. One image whose sandbox fails does not prove that the engine is at fault: the next ones are tried.
func (r *Runtime) Test(ctx context.Context) (runtime.Capabilities, error) {
	caps, err := r.Probe(ctx)
	if err != nil || !caps.Available {
		return caps, err
	}
	list, err := r.Images(ctx)
	if err != nil {
		return caps, err
	}
	var why *runtime.StepError
	failed := 0
	for _, img := range list {
		err := r.try(ctx, img.Ref)
		var step *runtime.StepError
		switch {
		case err == nil:
			return caps, nil
		case ctx.Err() != nil:
			return caps, err // the failure shows nothing about the engine
		case errors.Is(err, runtime.ErrNoImage), errors.As(err, &step) && step.Step == stepImage:
			continue // for another platform, or removed
		case step == nil:
			return caps, err
		}
		mayBeImage := step.Step == stepCreate || step.Step == stepStart || step.Step == stepAgent
		if why == nil || !mayBeImage {
			why = step
		}
		if failed++; !mayBeImage || failed == triedImages {
			break
		}
	}
	if why != nil {
		caps.Refuse(runtime.Reason{Code: prerequisite, Step: why.Step, Detail: why.Err.Error(), Hint: why.Hint})
	}
	return caps, nil
}

// try makes a sandbox of an image and removes it.
func (r *Runtime) try(ctx context.Context, image string) error {
	limits := belljar.DefaultLimits()
	box, err := r.Create(ctx, runtime.Spec{
		ID: belljar.NewID(), Root: runtime.Root{Ref: image, Name: image}, Limits: limits,
		Workspace: runtime.Workspace{Bytes: int64(limits.WorkspaceMB) << 20, Inodes: int64(limits.Inodes), Medium: runtime.MediumMemory},
		Lifetime:  runtime.LifetimeCreator,
	})
	if err != nil {
		return err
	}
	return box.Destroy(ctx)
}

// Normalised codes of reasons.
const (
	prerequisite = "host_prerequisite_missing"
	permission   = "host_permission_denied"
	foreignOS    = "unsupported_os"
	notBuilt     = "feature_not_implemented"
)

// whyNot returns why an engine did not answer correctly.
func (e *engine) whyNot(err error) runtime.Reason {
	why := runtime.Reason{Code: prerequisite, Step: stepEngine, Detail: err.Error()}
	socket, isSocket := strings.CutPrefix(e.host, "unix://")
	var step *runtime.StepError
	switch {
	case errors.As(err, &step):
		why.Step, why.Detail, why.Hint = step.Step, step.Err.Error(), step.Hint
	case errors.Is(err, errForeign):
		why.Code, why.Hint = foreignOS, "switch the engine to Linux containers"
	case errors.Is(err, os.ErrPermission), strings.Contains(err.Error(), "permission denied"):
		why.Code = permission
		why.Hint = "this user may not speak to the engine: add it to the group docker, which makes it root on that machine, or run a rootless engine"
	case tlsHint(err) != "":
		why.Hint = tlsHint(err)
	case cerrdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "API version"):
		why.Hint = "the engine is too old: Docker 19.03 (API 1.40) or newer is needed"
	case errors.Is(err, errMute):
		why.Hint = hintMute
	case cerrdefs.IsPermissionDenied(err):
		why.Code, why.Hint = permission, hintRefused
	case isSocket && missing(socket):
		why.Detail = "no socket at " + socket
		why.Hint = "install and start Docker, or say where its socket is with SANDBOX_DOCKER_HOST or DOCKER_HOST"
	case errors.Is(err, syscall.ECONNREFUSED):
		why.Hint = "nothing listens there: start the engine"
	default:
		why.Hint = "start the engine, or say where it is with SANDBOX_DOCKER_HOST or DOCKER_HOST"
	}
	return why
}

// tlsHint returns what to do if the engine and the environment do not agree about TLS; "" if that is not the cause.
func tlsHint(err error) string {
	text := err.Error()
	for _, c := range []struct{ sign, hint string }{
		{"HTTP request to an HTTPS server", "the engine requires TLS: name a folder with ca.pem, cert.pem and key.pem by DOCKER_CERT_PATH, and set DOCKER_TLS_VERIFY=1"},
		{"TLS-enabled daemon without TLS", "the engine requires TLS: name a folder with ca.pem, cert.pem and key.pem by DOCKER_CERT_PATH, and set DOCKER_TLS_VERIFY=1"},
		{"server gave HTTP response to HTTPS client", "the engine has no TLS: leave DOCKER_CERT_PATH and DOCKER_TLS_VERIFY out, or have it use TLS"},
		{"certificate", "the engine's certificate must be signed by ca.pem of DOCKER_CERT_PATH (or ~/.docker), for the address in DOCKER_HOST, and cert.pem there by an authority that the engine trusts"},
	} {
		if strings.Contains(text, c.sign) {
			return c.hint
		}
	}
	return ""
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

// capabilities returns the protections that the engine reports it can enforce.
func (e *engine) capabilities(f *facts) runtime.Capabilities {
	name, known := f.ociRuntime(e.opts.OCIRuntime)
	c := runtime.Capabilities{
		Available: true, State: runtime.StateSupported, Isolation: f.isolation(name), Version: f.ServerVersion,
		Rootless: f.has("rootless"), OOMScope: "process", AgentUID: "shared", Pause: true, Unpacked: true, Relay: true,
		OCIRuntime: name, Start: coldStart,
	}
	// Only runc and similar programs can change the limits of a running container.
	c.LimitMemory = c.Isolation == runtime.IsolationNamespace
	if c.Isolation == runtime.IsolationUserKernel {
		c.OOMScope = "sandbox"
	}
	c.Layers, c.NoLayers = e.layers(f, c.Isolation)
	refuse := func(code, detail, hint string) {
		c.Refuse(runtime.Reason{Code: code, Step: stepEngine, Detail: detail, Hint: hint})
	}
	if f.podman {
		refuse(notBuilt, strings.TrimSpace("Podman "+f.ServerVersion)+", asked as Docker, leaves out what a sandbox needs: masked paths and the end of stdin, and older ones bounds of inodes and ulimits",
			"use a Docker engine for this runtime, or the native one")
	}
	if !known {
		refuse(prerequisite, fmt.Sprintf("the engine has no OCI runtime %q", name), "add it to the engine's daemon.json, or name another one with SANDBOX_DOCKER_OCI_RUNTIME")
	}
	if _, err := execFilter(f.arch()); err != nil {
		refuse(prerequisite, fmt.Sprintf("the engine's architecture is %q", f.arch()), "use an engine on amd64 or arm64")
	}
	if e.opts.AppArmor != "" && !f.has("apparmor") {
		refuse(prerequisite, fmt.Sprintf("the engine has no AppArmor, and the profile %q is set", e.opts.AppArmor), "boot its kernel with AppArmor, or leave SANDBOX_DOCKER_APPARMOR_PROFILE empty")
	}
	c.Protections = e.protections(f, c.Isolation)
	return c
}

// layers reports whether containers can read folders of this machine, and if not, why.
func (e *engine) layers(f *facts, class runtime.Isolation) (bool, runtime.Reason) {
	why := runtime.Reason{Code: prerequisite, Step: stepMount}
	switch {
	case !e.local():
		why.Detail, why.Hint = "the engine may be on another machine", "use an engine that listens on a socket of this machine"
	case f.has("selinux") && class != runtime.IsolationUserKernel: // the folders have the label of Belljar's data
		why.Detail, why.Hint = "SELinux on the engine's machine hides the folders of other programs from containers", "use the native or gvisor runtime"
	default:
		return true, runtime.Reason{}
	}
	return false, why
}

func (e *engine) protections(f *facts, class runtime.Isolation) []runtime.Protection {
	identity := runtime.Protection{
		Name: runtime.ProtectIdentity, Enforced: true, By: "a random uid and gid for each sandbox, no capabilities, no new privileges",
	}
	if !f.mapped() {
		identity.Weaker = "the engine has no user namespace: the uid is one of its host"
		identity.Hint = "run the engine rootless, or with userns-remap"
	}
	filesystem := runtime.Protection{Name: runtime.ProtectFilesystem, Enforced: true, By: "a read-only image and no mounts of the engine's host"}
	if !f.has("apparmor") && !f.has("selinux") && class == runtime.IsolationNamespace {
		filesystem.Weaker = "no AppArmor or SELinux in addition"
		filesystem.Hint = "boot the engine's kernel with AppArmor"
	}
	seccomp := runtime.Protection{Name: runtime.ProtectSeccomp, Enforced: f.has("seccomp") || class != runtime.IsolationNamespace, By: "a seccomp allow-list of the engine's, and the agent's on every command"}
	if !seccomp.Enforced {
		seccomp.By, seccomp.Weaker = "", "only the agent's own filter on every command"
		seccomp.Hint = "use an engine and a kernel with seccomp"
	} else if class != runtime.IsolationNamespace {
		seccomp.By = "the agent's allow-list on every command, and the sandbox's own kernel"
	}
	group := "cgroup" + f.CgroupVersion
	memory := limitBy(runtime.ProtectMemory, f.MemoryLimit, group+" memory of programs and files in memory together (memory: total)")
	if f.MemoryLimit && !f.SwapLimit {
		memory.Weaker = "the engine cannot limit swap"
		memory.Hint = "boot the engine's kernel with swapaccount=1"
	}
	pids := limitBy(runtime.ProtectPids, f.PidsLimit, group+" pids")
	if ownKernel(class) {
		pids = runtime.Protection{
			Name: runtime.ProtectPids, Enforced: true, By: "RLIMIT_NPROC in a kernel of the sandbox's own, which has its processes only",
			Weaker: "no figures: what the engine's host counts are that kernel's threads",
		}
		if memory.Enforced && class == runtime.IsolationUserKernel {
			memory.By += ", with 128 MiB for that kernel itself"
		}
	}
	return []runtime.Protection{
		filesystem,
		{Name: runtime.ProtectNetwork, Enforced: true, By: "a network namespace with a loopback only"},
		seccomp,
		identity,
		runtime.WallTime(),
		cpuTime(class),
		runtime.MemoryDisk(),
		memory,
		pids,
		limitBy(runtime.ProtectCPU, f.CPUCfsQuota, group+" cpu"),
		{Name: runtime.ProtectLandlock, Hint: "the native runtime has it"},
	}
}

// cpuTime returns how the agent measures the CPU time of a command: it has no cgroups in a container.
func cpuTime(class runtime.Isolation) runtime.Protection {
	p := runtime.Protection{
		Name: runtime.ProtectCPUTime, Enforced: true, By: "the clocks of the command's processes, read by the agent",
		Weaker: "children that end within milliseconds are not counted where their parent ignores SIGCHLD",
		Hint:   "the native runtime counts them, where it may make cgroups of version 2",
	}
	if class == runtime.IsolationUserKernel {
		p.By = "the clocks of the command's processes in a kernel of the sandbox's own, read by the agent"
		p.Weaker = "that kernel looks every 10 ms at what runs: a program that sleeps just then is not charged"
		p.Hint = "the native runtime counts exactly"
	}
	return p
}

func limitBy(name string, enforced bool, by string) runtime.Protection {
	p := runtime.Protection{Name: name, Enforced: enforced, By: by}
	if !enforced {
		p.By, p.Hint = "", "give the engine this cgroup controller (docker info shows which are missing); a rootless engine needs systemd to delegate it"
	}
	return p
}
