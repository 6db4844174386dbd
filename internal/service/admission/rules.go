// Package admission decides about requests: which host, image, limits and protections the sandbox gets (its placement), and whether
// its user's quota, the node's memory and the disk have room for it.
package admission

import (
	"cmp"
	"context"
	"log/slog"
	"path"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// Images finds local images and marks them as used.
type Images interface {
	Find(ctx context.Context, ref string) (image.Root, error)
	Get(ctx context.Context, ref string) (belljar.Image, error)
	Names() []string
	Use(digest string) (end func())
}

// Rules are the operator's policy and the capabilities of the runtimes.
type Rules struct {
	Hosts             placement.Hosts
	Policy            Policy
	Limits, MaxLimits belljar.Limits
	Require           []string // protections of every sandbox
	Egress            *Egress
	Disks             Disks
	Approvals         *ApprovalRules // nil requires no approvals
	InstallMB         int            // size of an installation of packages, in MiB
	Images            Images
	// GoCache returns the folder with the Go build cache for an image, "" for none; nil means no cache. wanted means that the user's
	// sandbox is made to build Go programs.
	GoCache func(image runtime.Root, user string, wanted bool) string
	Log     *slog.Logger
}

// Request is the requirements of a request for its sandbox.
type Request struct {
	Runtime   string
	Image     string // "" is the host image
	Digest    string // of the image, if it is already pinned
	Isolation runtime.Isolation
	Trust     belljar.TrustLevel
	AllowWeak []string
	Network   belljar.NetworkSpec
	Packages  belljar.Packages
	Exec      bool // programs in the workspace may be executed
	Workspace belljar.Workspace
	Language  string // of the program, or else its command: it indicates whether Go programs are built
	Command   []string

	Resources         belljar.Resources
	BuildMemoryMB     int
	StartupTimeoutSec float64
	TimeoutSec        float64
	BuildTimeoutSec   float64
	CPUTimeSec        float64
}

// RequestOfRun returns the requirements of a run with a sandbox of its own.
func RequestOfRun(s belljar.RunSpec) Request {
	return Request{
		Runtime: s.Runtime, Image: s.BaseImage, Isolation: runtime.Isolation(s.Isolation), Trust: s.TrustLevel,
		AllowWeak: s.AllowWeak, Network: belljar.NetworkSpec{NetworkPolicy: s.NetworkPolicy, Egress: s.Egress}, Exec: s.WorkspaceExec, Workspace: s.Workspace, Packages: s.Packages, Language: s.Language, Command: s.Command,
		Resources: s.Resources, BuildMemoryMB: s.BuildMemoryMB, StartupTimeoutSec: s.StartupTimeoutSec,
		TimeoutSec: s.TimeoutSec, BuildTimeoutSec: s.BuildTimeoutSec, CPUTimeSec: s.CPUTimeSec,
	}
}

// RequestOfSession returns the requirements of a session.
func RequestOfSession(s belljar.SessionSpec) Request {
	return Request{
		Runtime: s.Runtime, Image: s.BaseImage, Isolation: runtime.Isolation(s.Isolation), Trust: s.TrustLevel,
		AllowWeak: s.AllowWeak, Network: belljar.NetworkSpec{NetworkPolicy: s.NetworkPolicy, Egress: s.Egress}, Exec: s.WorkspaceExec, Workspace: s.Workspace, Packages: s.Packages,
		Resources: s.Resources, StartupTimeoutSec: s.StartupTimeoutSec, TimeoutSec: s.TimeoutSec, CPUTimeSec: s.CPUTimeSec,
	}
}

// buildsGo reports whether a request is likely to build Go programs.
func (a Request) buildsGo() bool {
	l, _ := belljar.LanguageOf(a.Language)
	return l.Name == "Go" || len(a.Command) > 0 && path.Base(a.Command[0]) == "go"
}

func (a Request) requirements(require []string) requirements {
	return requirements{runtime: a.Runtime, isolation: a.Isolation, trust: a.Trust, image: cmp.Or(a.Image, runtime.HostRef), require: require}
}

// limits returns defaults overridden by the request's limits, which may be at most most.
func (a Request) limits(defaults, most belljar.Limits) (belljar.Limits, error) {
	return defaults.ResolveRun(&belljar.RunSpec{
		Resources: a.Resources, BuildMemoryMB: a.BuildMemoryMB, StartupTimeoutSec: a.StartupTimeoutSec,
		TimeoutSec: a.TimeoutSec, BuildTimeoutSec: a.BuildTimeoutSec, CPUTimeSec: a.CPUTimeSec,
	}, most)
}

// Place decides about the sandbox of a request.
func (r *Rules) Place(ctx context.Context, caller belljar.Caller, request Request) (p placement.Placement, err error) {
	p.Exec = request.Exec
	if p.Limits, err = request.limits(r.Limits, r.MaxLimits); err != nil {
		return p, err
	}
	if p.Require, err = waive(caller, append(slices.Clone(r.Require), request.protections()...), request.AllowWeak); err != nil {
		return p, err
	}
	if err = r.MayUse(ctx, request.Image); err != nil {
		return p, err
	}
	mb := 0
	if request.Workspace.OnDisk() {
		if mb, err = r.Disks.Size(caller, request.Workspace); err != nil {
			return p, err
		}
	}
	// Choose the runtime first: the image depends on it.
	w := request.requirements(p.Require)
	w.relay, w.packages, w.disk = r.Egress.Wanted(request.Network), !request.Packages.IsZero(), mb > 0
	found, err := r.choose(ctx, caller, w)
	if err != nil {
		return p, err
	}
	p.Host, p.Caps, p.Why = found.Host, found.Caps, found.Why
	if err = r.disk(&p, request, mb); err != nil {
		return p, err
	}
	if err = r.network(caller, &p, request); err != nil {
		return p, err
	}
	if err = r.packages(&p, request); err != nil {
		return p, err
	}
	if err = r.settleImage(ctx, &p, request.Image, request.Digest); err != nil {
		return p, err
	}
	if r.GoCache != nil && p.Caps.GoCache && p.Exec && mb == 0 && p.Fetch == "" {
		p.Image.GoCache = r.GoCache(p.Image, caller.ID, false)
		p.LacksGoCache = p.Image.GoCache == "" && request.buildsGo()
	}
	if err = enforceable(caller, &p, request); err != nil {
		return p, err
	}
	p.Bind()
	return p, nil
}

// Version refuses a request in a version of the specification that Belljar does not support. The policy's list applies to versions
// that clients send, which the sandbox API checks: requests of the other APIs have Belljar's own version.
func (r *Rules) Version(v string) error {
	return belljar.CheckVersion(v, DefaultPolicy().SupportedSpecVersions)
}

// Enabled refuses all execution if it is disabled on this node.
func (r *Rules) Enabled() error {
	if r.Policy.EnableExecution {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: "this node executes nothing",
		Details: map[string]any{"rule": "SANDBOX_ENABLE_EXECUTION"}, Hint: "an operator sets SANDBOX_ENABLE_EXECUTION",
	}
}
