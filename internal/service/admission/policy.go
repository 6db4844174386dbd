package admission

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/archive"
	"github.com/belljar/belljar/internal/runtime"
)

// Policy is the operator's policy for all callers, with the names of docs/compatibility.md#policy-hash. [Policy.Effective] overwrites the fields marked L from
// the default limits and the maximum limits.
type Policy struct {
	DefaultRuntime        string   `json:"SANDBOX_DEFAULT_RUNTIME"` // the first of Options.Runtimes
	NetworkDefault        string   `json:"SANDBOX_NETWORK_DEFAULT"`
	MaxUploadMB           int      `json:"SANDBOX_MAX_UPLOAD_MB"`
	MaxLogBytes           int64    `json:"SANDBOX_MAX_LOG_BYTES"`                  // L
	WorkspaceCapMB        int      `json:"SANDBOX_WORKSPACE_CAP_MB"`               // L
	ArtifactTTLHours      int      `json:"SANDBOX_ARTIFACT_TTL_HOURS"`             // logs and artifacts of an ended run are kept; 0 is as long as its row
	MaxArtifactsPerRunMB  int      `json:"SANDBOX_MAX_ARTIFACT_BYTES_PER_RUN_MB"`  // L
	MaxArtifactsPerUserMB int      `json:"SANDBOX_MAX_ARTIFACT_BYTES_PER_USER_MB"` // from Options.Quota if that sets it
	MaxCPU                float64  `json:"SANDBOX_MAX_CPU"`                        // L
	MaxMemoryMB           int      `json:"SANDBOX_MAX_MEM_MB"`                     // L
	PidsLimit             int      `json:"SANDBOX_PIDS_LIMIT"`                     // L
	NoFile                int      `json:"SANDBOX_ULIMIT_NOFILE"`                  // L
	NProc                 int      `json:"SANDBOX_ULIMIT_NPROC"`                   // L
	StartupTimeoutSec     float64  `json:"SANDBOX_DEFAULT_STARTUP_TIMEOUT_SEC"`    // L
	ExecTimeoutSec        float64  `json:"SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC"`       // L
	CancelGraceSec        float64  `json:"SANDBOX_CANCEL_GRACE_SECONDS"`           // L
	EnableExecution       bool     `json:"SANDBOX_ENABLE_EXECUTION"`
	BackgroundExecution   bool     `json:"SANDBOX_BACKGROUND_EXECUTION"`
	DockerSeccomp         string   `json:"SANDBOX_DOCKER_SECCOMP"` // profile's name or hash of its contents; "" is the built-in one
	DockerAppArmorProfile string   `json:"SANDBOX_DOCKER_APPARMOR_PROFILE"`
	SupportedSpecVersions []string `json:"SANDBOX_SUPPORTED_SPEC_VERSIONS"`

	// Belljar's own settings, which are part of the hash only if they differ from the default.
	NoInteractive         bool     `json:"SANDBOX_NO_INTERACTIVE,omitempty"` // no interactive runs
	UnenforcedProtections []string `json:"SANDBOX_ALLOW_WEAK,omitempty"`     // protections missing in Options.Require
	AllowedImages         []string `json:"SANDBOX_ALLOWED_IMAGES,omitempty"` // patterns of images that requests may name; empty permits every image
	ImagePull             string   `json:"SANDBOX_IMAGE_PULL,omitempty"`     // PullNever; "" is the default, PullMissing
	ImageAliases          []string `json:"SANDBOX_IMAGE_ALIASES,omitempty"`  // name=image, as in the store
	// TrustLevels is the weakest isolation of a trust level, if it differs from [DefaultTrustLevels]. DefaultTrust is the level of requests that set none, and
	// the highest that users who are not operators can set; "" is none.
	TrustLevels  map[belljar.TrustLevel]runtime.Isolation `json:"SANDBOX_TRUST_LEVELS,omitempty"`
	DefaultTrust belljar.TrustLevel                       `json:"SANDBOX_DEFAULT_TRUST_LEVEL,omitempty"`
	// DockerOCIRuntime is the OCI runtime for the engine to use; "" is its default.
	DockerOCIRuntime string  `json:"SANDBOX_DOCKER_OCI_RUNTIME,omitempty"`
	DefaultCPU       float64 `json:"SANDBOX_DEFAULT_CPU,omitempty"`          // L
	DefaultMemoryMB  int     `json:"SANDBOX_DEFAULT_MEM_MB,omitempty"`       // L
	DefaultCPUTime   float64 `json:"SANDBOX_DEFAULT_CPU_TIME_SEC,omitempty"` // L
	TmpMB            int     `json:"SANDBOX_TMP_MB,omitempty"`               // L
	MaxUploadFiles   int     `json:"SANDBOX_MAX_UPLOAD_FILES,omitempty"`     // from Options.Uploads
	MaxUploadDepth   int     `json:"SANDBOX_MAX_UPLOAD_DEPTH,omitempty"`     // from Options.Uploads
	// The destinations that sandboxes may reach at most: rules for all users; user=rule, which replaces these for a user; level=rule, for programs
	// of a trust level, which must permit a destination as well. "*" is every public host.
	EgressAllow      []string `json:"SANDBOX_EGRESS_ALLOW,omitempty"`
	EgressAllowUsers []string `json:"SANDBOX_EGRESS_ALLOW_USERS,omitempty"`
	EgressAllowTrust []string `json:"SANDBOX_EGRESS_ALLOW_TRUST,omitempty"`
	EgressPorts      []uint16 `json:"SANDBOX_EGRESS_PORTS,omitempty"`    // empty is [DefaultEgressPorts]
	EgressPrivate    bool     `json:"SANDBOX_EGRESS_PRIVATE,omitempty"`  // rules for addresses may name private ones
	EgressPresets    []string `json:"SANDBOX_EGRESS_PRESETS,omitempty"`  // of [Presets]
	PackageMirrors   []string `json:"SANDBOX_PACKAGE_MIRRORS,omitempty"` // preset=URL
	// Approval is the rules about requests that wait for an approval.
	Approval []string `json:"SANDBOX_APPROVAL,omitempty"`
}

// DefaultPolicy is the policy of docs/compatibility.md#limits-and-defaults, with execution on.
func DefaultPolicy() Policy {
	return Policy{
		NetworkDefault: belljar.NetworkDenyAll, MaxUploadMB: 64, ArtifactTTLHours: 24, MaxArtifactsPerUserMB: 128,
		EnableExecution: true, BackgroundExecution: true, SupportedSpecVersions: []string{"1.0", "1.1"},
	}
}

// DefaultTrustLevels returns the default weakest isolation of each trust level.
func DefaultTrustLevels() map[belljar.TrustLevel]runtime.Isolation {
	return map[belljar.TrustLevel]runtime.Isolation{
		belljar.TrustTrusted: runtime.IsolationNamespace, belljar.TrustStandard: runtime.IsolationNamespace,
		belljar.TrustUntrusted: runtime.IsolationUserKernel,
	}
}

// WeakestIsolation is the weakest isolation of a trust level.
func (p Policy) WeakestIsolation(level belljar.TrustLevel) runtime.Isolation {
	if own, ok := p.TrustLevels[level]; ok {
		return own
	}
	return DefaultTrustLevels()[level]
}

// hashedNProc is the default of SANDBOX_ULIMIT_NPROC in the hash (docs/compatibility.md#policy-hash). The limit on processes has always reduced it to half, so
// the hash of the default policy, which clients compare, keeps it.
const hashedNProc = 512

// Effect is the other inputs to the policy in force.
type Effect struct {
	DefaultRuntime    string
	Limits, MaxLimits belljar.Limits
	ArtifactMB        int // of one user
	Require           []string
	Uploads           archive.Limits
}

// Effective returns the policy in force.
func (p Policy) Effective(opts Effect) Policy {
	p.DefaultRuntime = opts.DefaultRuntime
	p.MaxLogBytes, p.WorkspaceCapMB = opts.Limits.LogBytes, opts.Limits.WorkspaceMB
	p.MaxArtifactsPerRunMB, p.MaxArtifactsPerUserMB = opts.Limits.ArtifactMB, opts.ArtifactMB
	p.MaxCPU, p.MaxMemoryMB = opts.MaxLimits.CPU, opts.MaxLimits.MemoryMB
	p.PidsLimit, p.NoFile, p.NProc = opts.Limits.Pids, opts.Limits.NoFile, opts.Limits.NProc
	p.StartupTimeoutSec, p.ExecTimeoutSec = opts.Limits.StartupTimeoutSec, opts.Limits.TimeoutSec
	p.CancelGraceSec = opts.Limits.GraceSec
	if p.ImagePull == PullMissing {
		p.ImagePull = ""
	}
	if usual := belljar.DefaultLimits(); p.PidsLimit == usual.Pids && p.NProc == usual.NProc {
		p.NProc = hashedNProc
	}
	p.UnenforcedProtections = without(AllProtections(), opts.Require)
	levels := maps.Clone(p.TrustLevels)
	maps.DeleteFunc(levels, func(level belljar.TrustLevel, least runtime.Isolation) bool {
		return DefaultTrustLevels()[level] == least
	})
	p.TrustLevels = levels
	if slices.Equal(p.EgressPorts, DefaultEgressPorts()) {
		p.EgressPorts = nil
	}
	usual, uploads := belljar.DefaultLimits(), archive.DefaultLimits()
	p.DefaultCPU = unusual(opts.Limits.CPU, usual.CPU)
	p.DefaultCPUTime = unusual(opts.Limits.CPUTimeSec, usual.CPUTimeSec)
	p.DefaultMemoryMB, p.TmpMB = unusual(opts.Limits.MemoryMB, usual.MemoryMB), unusual(opts.Limits.TmpMB, usual.TmpMB)
	p.MaxUploadFiles, p.MaxUploadDepth = unusual(opts.Uploads.Files, uploads.Files), unusual(opts.Uploads.Depth, uploads.Depth)
	return p
}

// unusual returns n, or 0 if n is the default.
func unusual[T int | float64](n, usual T) T {
	if n == usual {
		return 0
	}
	return n
}

// Hash returns the policy_hash (docs/compatibility.md#policy-hash): SHA-256 in lower-case hex over a version prefix and the policy as canonical JSON (sorted
// keys, no white space, numbers in their shortest form).
func (p Policy) Hash() string {
	h := sha256.Sum256(append([]byte("tldw.sandbox.policy:v1\n"), p.Canonical()...))
	return hex.EncodeToString(h[:])
}

// Canonical returns the policy as canonical JSON.
func (p Policy) Canonical() []byte {
	raw, err := json.Marshal(p)
	var keys map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &keys)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err == nil {
		err = enc.Encode(keys) // sorts them
	}
	if err != nil {
		panic("policy is not JSON: " + err.Error()) // cannot fail: there are only strings, numbers and booleans
	}
	return bytes.TrimSpace(out.Bytes())
}

// For returns the policy as a caller may see it: only operators see the rules of other users.
func (p Policy) For(caller belljar.Caller) Policy {
	if !caller.Admin() {
		p.EgressAllowUsers = slices.DeleteFunc(slices.Clone(p.EgressAllowUsers), func(pair string) bool {
			user, _ := cutUser(pair)
			return user != caller.ID
		})
	}
	return p
}

// IsZero reports whether the policy is empty.
func (p Policy) IsZero() bool {
	raw, zero := p.Canonical(), Policy{}.Canonical()
	return bytes.Equal(raw, zero)
}

// Retention describes when logs are deleted, for users whose quota is used up. rowDays is for how long runs stay on record.
func (p Policy) Retention(rowDays int) string {
	if hours := p.ArtifactTTLHours; hours > 0 {
		return fmt.Sprintf("wait: logs are deleted %d hours after their runs end (SANDBOX_ARTIFACT_TTL_HOURS)", hours)
	}
	return fmt.Sprintf("wait: logs are deleted %d days after their runs end (SANDBOX_RUN_RETENTION_DAYS)", rowDays)
}
