package service

import (
	"cmp"
	"time"

	"github.com/belljar/belljar/internal/archive"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/stdin"
)

// completeSessions fills in the defaults of sessions, uploads and interactive input.
func (o *Options) completeSessions() {
	o.SessionTTL = cmp.Or(o.SessionTTL, time.Hour)
	o.MaxSessionTTL = cmp.Or(o.MaxSessionTTL, 24*time.Hour)
	o.MaxSessionTTL = max(o.MaxSessionTTL, o.SessionTTL)
	o.SessionLifetime = cmp.Or(o.SessionLifetime, 24*time.Hour)
	o.MaxSessionLifetime = cmp.Or(o.MaxSessionLifetime, 7*24*time.Hour)
	o.MaxSessionLifetime = max(o.MaxSessionLifetime, o.SessionLifetime)
	o.SessionConcurrency = cmp.Or(o.SessionConcurrency, 16)
	o.ReapEvery = cmp.Or(o.ReapEvery, 30*time.Second)
	o.DefaultImage = cmp.Or(o.DefaultImage, runtime.HostRef)
	o.MaxSessions = cmp.Or(o.MaxSessions, 100)
	o.MaxNodeSessions = cmp.Or(o.MaxNodeSessions, 1000)
	usual := archive.DefaultLimits()
	o.Uploads.Bytes = cmp.Or(o.Uploads.Bytes, int64(o.Policy.MaxUploadMB)<<20)
	o.Uploads.Files = cmp.Or(o.Uploads.Files, usual.Files)
	o.Uploads.Depth = cmp.Or(o.Uploads.Depth, usual.Depth)
	o.Uploads.Ratio = cmp.Or(o.Uploads.Ratio, usual.Ratio)
	o.Stdin = stdin.Complete(o.Stdin, stdin.DefaultLimits())
	o.MaxStdin = stdin.Complete(o.MaxStdin, stdin.MaxLimits())
	// A request may always set the default.
	o.MaxStdin.MaxBytes = max(o.MaxStdin.MaxBytes, o.Stdin.MaxBytes)
	o.MaxStdin.MaxFrameBytes = max(o.MaxStdin.MaxFrameBytes, o.Stdin.MaxFrameBytes)
	o.MaxStdin.BytesPerSec = max(o.MaxStdin.BytesPerSec, o.Stdin.BytesPerSec)
	o.MaxStdin.IdleTimeoutSec = max(o.MaxStdin.IdleTimeoutSec, o.Stdin.IdleTimeoutSec)
}
