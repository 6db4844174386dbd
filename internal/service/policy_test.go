package service

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/belljar/belljar/internal/blob"
	logbook "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	store "github.com/belljar/belljar/internal/store/memory"
)

// named is a runtime that has only a name.
type named struct {
	runtime.Runtime
	name string
}

func (n named) Name() string { return n.name }

// parts returns the required options of a service.
func parts(list ...runtime.Runtime) Options {
	return Options{Runtimes: list, Store: store.New(), Logs: logbook.New(), Blobs: noBlobs{}}
}

// noBlobs stores nothing.
type noBlobs struct{ blob.Store }

// TestPolicyHash pins the hash of the default policy, from its canonical form as a literal: clients compare it.
func TestPolicyHash(t *testing.T) {
	s, err := New(parts(named{name: "native"}))
	if err != nil {
		t.Fatal(err)
	}
	const canonical = `{"SANDBOX_ARTIFACT_TTL_HOURS":24,"SANDBOX_BACKGROUND_EXECUTION":true,"SANDBOX_CANCEL_GRACE_SECONDS":5,` +
		`"SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC":60,"SANDBOX_DEFAULT_RUNTIME":"native","SANDBOX_DEFAULT_STARTUP_TIMEOUT_SEC":20,` +
		`"SANDBOX_DOCKER_APPARMOR_PROFILE":"","SANDBOX_DOCKER_SECCOMP":"","SANDBOX_ENABLE_EXECUTION":true,` +
		`"SANDBOX_MAX_ARTIFACT_BYTES_PER_RUN_MB":32,"SANDBOX_MAX_ARTIFACT_BYTES_PER_USER_MB":128,"SANDBOX_MAX_CPU":4,` +
		`"SANDBOX_MAX_LOG_BYTES":10485760,"SANDBOX_MAX_MEM_MB":8192,"SANDBOX_MAX_UPLOAD_MB":64,"SANDBOX_NETWORK_DEFAULT":"deny_all",` +
		`"SANDBOX_PIDS_LIMIT":256,"SANDBOX_SUPPORTED_SPEC_VERSIONS":["1.0","1.1"],"SANDBOX_ULIMIT_NOFILE":1024,` +
		`"SANDBOX_ULIMIT_NPROC":512,"SANDBOX_WORKSPACE_CAP_MB":256}`
	if got := string(s.Policy().Canonical()); got != canonical {
		t.Errorf("canonical form\n%s\nwant\n%s", got, canonical)
	}
	sum := sha256.Sum256([]byte("tldw.sandbox.policy:v1\n" + canonical))
	const want = "236243274d2008327e6a3388b875654b042d36cc22bfc4f45e890cf36432724c"
	if got := s.Policy().Hash(); got != want || got != hex.EncodeToString(sum[:]) || got != s.policy {
		t.Errorf("hash %s, want %s", got, want)
	}
}

// Every part of the policy affects the hash; Belljar's own parts only if they differ from the default.
func TestPolicyHashChanges(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*Options){
		"default":           func(*Options) {},
		"runtime":           func(o *Options) { o.Runtimes = []runtime.Runtime{named{name: "docker"}} },
		"log":               func(o *Options) { o.Limits.LogBytes = 1 },
		"workspace":         func(o *Options) { o.Limits.WorkspaceMB = 1 },
		"artifacts":         func(o *Options) { o.Limits.ArtifactMB = 1 },
		"cpu":               func(o *Options) { o.MaxLimits.CPU = 0.5 },
		"memory":            func(o *Options) { o.MaxLimits.MemoryMB = 1 },
		"pids":              func(o *Options) { o.Limits.Pids = 1 },
		"nofile":            func(o *Options) { o.Limits.NoFile = 17 },
		"nproc":             func(o *Options) { o.Limits.NProc = 17 },
		"startup":           func(o *Options) { o.Limits.StartupTimeoutSec = 17 },
		"timeout":           func(o *Options) { o.Limits.TimeoutSec = 17 },
		"grace":             func(o *Options) { o.Limits.GraceSec = 17 },
		"execution off":     func(o *Options) { o.Policy = DefaultPolicy(); o.Policy.EnableExecution = false },
		"background off":    func(o *Options) { o.Policy = DefaultPolicy(); o.Policy.BackgroundExecution = false },
		"versions":          func(o *Options) { o.Policy = DefaultPolicy(); o.Policy.SupportedSpecVersions = []string{"1.0"} },
		"upload":            func(o *Options) { o.Policy = DefaultPolicy(); o.Policy.MaxUploadMB = 1 },
		"user's artifacts":  func(o *Options) { o.Quota.ArtifactMB = 1 },
		"default cpu":       func(o *Options) { o.Limits.CPU = 0.5 },
		"default CPU time":  func(o *Options) { o.Limits.CPUTimeSec = 17 },
		"default memory":    func(o *Options) { o.Limits.MemoryMB = 100 },
		"tmp":               func(o *Options) { o.Limits.TmpMB = 1 },
		"upload's files":    func(o *Options) { o.Uploads.Files = 17 },
		"upload's depth":    func(o *Options) { o.Uploads.Depth = 17 },
		"fewer protections": func(o *Options) { o.Require = CoreProtections() },
	} {
		o := parts(named{name: "native"})
		change(&o)
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[s.policy]; ok {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[s.policy] = name
	}
}

func TestNewRefuses(t *testing.T) {
	rt := named{name: "native"}
	for name, o := range map[string]Options{
		"no runtime":    parts(),
		"no logbook":    func() Options { o := parts(rt); o.Logs = nil; return o }(),
		"no store":      func() Options { o := parts(rt); o.Store = nil; return o }(),
		"no blob store": func() Options { o := parts(rt); o.Blobs = nil; return o }(),
		"two the same":  parts(rt, rt),
	} {
		if s, err := New(o); err == nil {
			t.Errorf("%s: %v", name, s)
		}
	}
}
