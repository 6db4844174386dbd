package config

import "github.com/belljar/belljar"

// Limits returns the default limits of a run.
func (c *Config) Limits() belljar.Limits {
	l := belljar.DefaultLimits()
	l.CPU, l.MemoryMB = c.DefaultCPU, c.DefaultMemMB
	l.Pids, l.NoFile, l.NProc = c.PidsLimit, c.UlimitNoFile, c.UlimitNProc
	if _, set := c.origins[Prefix+"ULIMIT_NPROC"]; !set {
		l.NProc = l.Pids
	}
	l.WorkspaceMB, l.TmpMB = c.WorkspaceCapMB, c.TmpMB
	l.LogBytes, l.ArtifactMB = c.MaxLogBytes, c.MaxArtifactRunMB
	l.StartupTimeoutSec, l.TimeoutSec = c.StartupTimeout.Seconds(), c.ExecTimeout.Seconds()
	l.BuildTimeoutSec = c.BuildTimeout.Seconds()
	l.CPUTimeSec = c.CPUTime.Seconds()
	l.GraceSec = c.CancelGrace.Seconds()
	return l
}

// MaxLimits returns the maximum limits of a run. A key that is both a default and a maximum counts as a maximum only if it is set;
// otherwise [belljar.MaxLimits] applies.
func (c *Config) MaxLimits() belljar.Limits {
	most := belljar.MaxLimits()
	most.CPU, most.MemoryMB, most.TmpMB = c.MaxCPU, c.MaxMemMB, c.TmpMB
	most.StartupTimeoutSec, most.TimeoutSec = c.MaxStartupTimeout.Seconds(), c.MaxExecTimeout.Seconds()
	most.BuildTimeoutSec = most.TimeoutSec
	most.CPUTimeSec = c.MaxCPUTime.Seconds()
	most.GraceSec = max(most.GraceSec, c.CancelGrace.Seconds())
	for _, key := range []struct {
		name  string
		apply func()
	}{
		{"PIDS_LIMIT", func() { most.Pids = c.PidsLimit }},
		{"ULIMIT_NOFILE", func() { most.NoFile = c.UlimitNoFile }},
		{"ULIMIT_NPROC", func() { most.NProc = c.UlimitNProc }},
		{"WORKSPACE_CAP_MB", func() { most.WorkspaceMB = c.WorkspaceCapMB }},
		{"MAX_LOG_BYTES", func() { most.LogBytes = c.MaxLogBytes }},
		{"MAX_ARTIFACT_BYTES_PER_RUN_MB", func() { most.ArtifactMB = c.MaxArtifactRunMB }},
	} {
		if _, set := c.origins[Prefix+key.name]; set {
			key.apply()
		}
	}
	if _, set := c.origins[Prefix+"ULIMIT_NPROC"]; !set { // otherwise a request's processes are limited to fewer than PIDS_LIMIT permits
		most.NProc = max(most.NProc, most.Pids)
	}
	return most
}

// Quota returns the default quota of a user.
func (c *Config) Quota() belljar.Quota {
	return belljar.Quota{
		ConcurrentRuns: c.QuotaConcurrentRuns, CPUSecondsPerDay: c.QuotaCPUSeconds, ArtifactMB: c.MaxArtifactUserMB,
		LogMB: c.QuotaLogMB, MemoryMB: c.QuotaMemoryMB, CPU: c.QuotaCPU, EgressMBPerDay: c.QuotaEgressMB,
	}
}
