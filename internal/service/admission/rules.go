// Package admission decides what a request may have: which host, image, limits and protections its sandbox gets (its
// placement), and whether its user, the node's memory and the disk have room for it.
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

// Images finds images that are here, and keeps them here.
type Images interface {
	Find(ctx context.Context, ref string) (image.Root, error)
	Get(ctx context.Context, ref string) (belljar.Image, error)
	Names() []string
	Use(digest string) (end func())
}

// Rules are what the operator allows, and what the hosts can do.
type Rules struct {
	Hosts             placement.Hosts
	Policy            Policy
	Limits, MaxLimits belljar.Limits
	Require           []string // protections of every sandbox
	Egress            *Egress
	Disks             Disks
	Approvals         *ApprovalRules // nil lets all go
	InstallMB         int            // what the installation of packages may hold, in MiB
	Images            Images
	// GoCache is the folder with the Go build cache of an image, "" for none; nil knows none. wanted means that a sandbox is
	// made to build Go programs.
	GoCache func(image runtime.Root, wanted bool) string
	Log     *slog.Logger
}

// Request is what a request wants of its sandbox.
type Request struct {
	Runtime   string
	Image     string // "" is the host's own programs
	Digest    string // of the image, if that is settled
	Isolation runtime.Isolation
	Trust     belljar.TrustLevel
	AllowWeak []string
	Network   belljar.NetworkSpec
	Packages  belljar.Packages
	Exec      bool // programs in the workspace may be executed
	Workspace belljar.Workspace
	Language  string // of the program, and its command: whether it is likely to build Go programs
	Command   []string

	Resources         belljar.Resources
	BuildMemoryMB     int
	StartupTimeoutSec float64
	TimeoutSec        float64
	BuildTimeoutSec   float64
	CPUTimeSec        float64
}

// RequestOfRun is what a request for a run wants of a sandbox of its own.
func RequestOfRun(s belljar.RunSpec) Request {
	return Request{
		Runtime: s.Runtime, Image: s.BaseImage, Isolation: runtime.Isolation(s.Isolation), Trust: s.TrustLevel,
		AllowWeak: s.AllowWeak, Network: belljar.NetworkSpec{NetworkPolicy: s.NetworkPolicy, Egress: s.Egress}, Exec: s.WorkspaceExec, Workspace: s.Workspace, Packages: s.Packages, Language: s.Language, Command: s.Command,
		Resources: s.Resources, BuildMemoryMB: s.BuildMemoryMB, StartupTimeoutSec: s.StartupTimeoutSec,
		TimeoutSec: s.TimeoutSec, BuildTimeoutSec: s.BuildTimeoutSec, CPUTimeSec: s.CPUTimeSec,
	}
}

// RequestOfSession is what a request for a session wants of its sandbox.
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

// limits are defaults with what the request asks for, at most so much.
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
	// The runtime comes first: without it no image helps.
	w := request.requirements(p.Require)
	w.relay, w.packages, w.disk = r.Egress.Wanted(request.Network), !request.Packages.IsZero(), mb > 0
	found, err := r.choose(ctx, caller, w)
	if err != nil {
		return p, err
	}
	p.Host, p.Caps, p.Why = found.Host, found.Caps, found.Why
	if err = r.disk(&p, request.Workspace, mb); err != nil {
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
		p.Image.GoCache = r.GoCache(p.Image, false)
		p.LacksGoCache = p.Image.GoCache == "" && request.buildsGo()
	}
	if err = enforceable(&p, request); err != nil {
		return p, err
	}
	p.Bind()
	return p, nil
}

// Version refuses a request in a version of the specification that Belljar does not speak. The policy's list is for what clients name,
// which the sandbox API checks: requests that other doors make have Belljar's own version.
func (r *Rules) Version(v string) error {
	return belljar.CheckVersion(v, DefaultPolicy().SupportedSpecVersions)
}

// Enabled refuses everything on a node that executes nothing.
func (r *Rules) Enabled() error {
	if r.Policy.EnableExecution {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: "this node executes nothing",
		Details: map[string]any{"rule": "SANDBOX_ENABLE_EXECUTION"}, Hint: "an operator sets SANDBOX_ENABLE_EXECUTION",
	}
}
