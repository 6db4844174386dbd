package service

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
)

// node is the part of the service about the server, as one caller sees it.
type node struct{ view }

var _ belljar.Node = node{}

// Runtimes reports the server's capabilities.
func (v node) Runtimes(ctx context.Context) (belljar.Discovery, error) {
	s := v.service
	d := belljar.Discovery{
		StoreMode: s.opts.Store.Mode(), Runtimes: []belljar.RuntimeInfo{},
		TrustLevels: map[belljar.TrustLevel]string{}, DefaultTrustLevel: s.opts.Policy.DefaultTrust,
	}
	for _, level := range belljar.TrustLevels() {
		d.TrustLevels[level] = string(s.opts.Policy.WeakestIsolation(level))
	}
	for i, h := range s.hosts {
		caps, err := h.Refresh(ctx)
		if err != nil {
			s.log.Error("runtime cannot be probed", "runtime", h.Name(), "err", err)
			caps = runtime.Capabilities{Reasons: []runtime.Reason{{Code: "probe_failed", Detail: "it could not be probed"}}}
		}
		info := s.info(h.Name(), caps, i == 0)
		_, info.OwnImages = runtime.As[runtime.Imager](h.Runtime)
		info.DefaultImages = s.pinAll(ctx, s.rules.ImagesFor(caps))
		d.Runtimes = append(d.Runtimes, info)
	}
	return d, nil
}

// pinAll adds the digests of images to their names, if requests can use digests. An operator's alias has none.
func (s *Service) pinAll(ctx context.Context, names []string) []string {
	for i, name := range names {
		found, err := s.opts.Images.Get(ctx, name)
		if err != nil || found.Digest == "" || strings.Contains(name, "@") {
			continue
		}
		if _, err := s.opts.Images.Get(ctx, name+"@"+found.Digest); err == nil {
			names[i] = name + "@" + found.Digest
		}
	}
	return names
}

// info converts the capabilities of a runtime to the sandbox API.
func (s *Service) info(name string, caps runtime.Capabilities, first bool) belljar.RuntimeInfo {
	o := s.opts
	info := belljar.RuntimeInfo{
		Name: name, Available: caps.Available, Default: first,
		MaxCPU: o.MaxLimits.CPU, MaxMemMB: o.MaxLimits.MemoryMB, MaxUploadMB: o.Policy.MaxUploadMB,
		MaxUploadFiles: o.Uploads.Files, MaxUploadDepth: o.Uploads.Depth, MaxLogBytes: o.Limits.LogBytes,
		QueueMaxLength: o.QueueLength, QueueTTLSec: int(o.QueueTTL.Seconds()), WorkspaceCapMB: o.Limits.WorkspaceMB,
		ArtifactTTLHours: o.Policy.ArtifactTTLHours, SupportedSpecVersions: o.Policy.SupportedSpecVersions,
		InteractiveSupported: caps.Available && !o.Policy.NoInteractive, EgressAllowlistSupported: caps.Available && caps.Relay,
		Version: caps.Version, ImplementationState: string(caps.State), Isolation: string(caps.Isolation), LimitsEnforced: placement.Enforced(caps),
		Rootless: caps.Rootless, OOMScope: caps.OOMScope, AgentUID: caps.AgentUID, OCIRuntime: caps.OCIRuntime,
		HostImage: caps.HostImage, UnpackedImages: caps.Unpacked, Snapshots: caps.Snapshots, Pause: caps.Pause,
	}
	no := s.volumes.Unable()
	if no == nil {
		no = admission.NoDisk(caps)
	}
	if info.DiskWorkspaces = no == nil && caps.Available; info.DiskWorkspaces {
		info.DiskCapMB = o.Volumes.MB
	} else if no != nil {
		info.NoDisk = &belljar.RuntimeReason{Code: no.Code, Step: no.Step, Detail: no.Detail, Hint: no.Hint}
	}
	for _, p := range caps.Protections {
		info.Protections = append(info.Protections, belljar.RuntimeProtection(p))
	}
	for _, r := range caps.Reasons {
		info.Reasons = append(info.Reasons, belljar.RuntimeReason{Code: r.Code, Step: r.Step, Detail: r.Detail, Hint: r.Hint})
	}
	if !caps.Available && len(caps.Reasons) > 0 {
		info.Notes = &caps.Reasons[0].Detail
	}
	return info
}

// Me reports the caller's identity and permissions.
func (v node) Me(ctx context.Context) (belljar.Me, error) {
	s := v.service
	me := belljar.Me{
		UserID: v.caller.ID, Role: v.caller.Role, PolicyHash: s.policy, Limits: s.opts.Limits, MaxLimits: s.opts.MaxLimits,
		MaxTTLSec: s.opts.MaxSessionTTL.Seconds(),
	}
	if err := json.Unmarshal(s.opts.Policy.For(v.caller).Canonical(), &me.Policy); err != nil {
		return me, err
	}
	var err error
	if me.Quota, err = s.accounts.Quota(ctx, v.caller.ID); err != nil {
		return me, err
	}
	usage, err := s.opts.Store.Users().Usage(ctx, v.caller.ID, s.clock.Now())
	if err != nil {
		return me, fault.Record("read the usage of "+v.caller.ID, err)
	}
	me.Used.ConcurrentRuns, me.Used.QueuedRuns = s.queue.Count(v.caller.ID)
	me.Used.Sessions = s.sessions.CountOf(v.caller.ID)
	me.Used.CPUSecondsToday, me.Used.ArtifactBytes, me.Used.LogBytes = usage.CPUSecondsToday, usage.ArtifactBytes+s.volumes.Bytes(v.caller.ID), s.accounts.LogBytes(v.caller.ID, usage.LogBytes)
	me.Used.EgressBytesToday = usage.EgressBytesToday
	memory, cpu := s.memory.Used(v.caller.ID)
	me.Used.MemoryMB, me.Used.CPU = int(memory>>20), admission.Hundredths(cpu)
	return me, nil
}
