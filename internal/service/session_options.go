package service

import (
	"time"

	"github.com/belljar/belljar/internal/archive"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/stdin"
)

// completeSessions fills in the defaults of sessions, uploads and interactive input.
func (o *Options) completeSessions() {
	fill(&o.SessionTTL, time.Hour)
	fill(&o.MaxSessionTTL, 24*time.Hour)
	o.MaxSessionTTL = max(o.MaxSessionTTL, o.SessionTTL)
	fill(&o.SessionLifetime, 24*time.Hour)
	fill(&o.MaxSessionLifetime, 7*24*time.Hour)
	o.MaxSessionLifetime = max(o.MaxSessionLifetime, o.SessionLifetime)
	fill(&o.SessionConcurrency, 16)
	fill(&o.ReapEvery, 30*time.Second)
	fill(&o.DefaultImage, runtime.HostRef)
	fill(&o.MaxSessions, 100)
	fill(&o.MaxNodeSessions, 1000)
	usual := archive.DefaultLimits()
	fill(&o.Uploads.Bytes, int64(o.Policy.MaxUploadMB)<<20)
	fill(&o.Uploads.Files, usual.Files)
	fill(&o.Uploads.Depth, usual.Depth)
	fill(&o.Uploads.Ratio, usual.Ratio)
	o.Stdin = stdin.Complete(o.Stdin, stdin.DefaultLimits())
	o.MaxStdin = stdin.Complete(o.MaxStdin, stdin.MaxLimits())
	// A request may always set the default.
	o.MaxStdin.MaxBytes = max(o.MaxStdin.MaxBytes, o.Stdin.MaxBytes)
	o.MaxStdin.MaxFrameBytes = max(o.MaxStdin.MaxFrameBytes, o.Stdin.MaxFrameBytes)
	o.MaxStdin.BytesPerSec = max(o.MaxStdin.BytesPerSec, o.Stdin.BytesPerSec)
	o.MaxStdin.IdleTimeoutSec = max(o.MaxStdin.IdleTimeoutSec, o.Stdin.IdleTimeoutSec)
}
