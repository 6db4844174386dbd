// Package config holds the operator's settings: one typed [Config], which [Load] makes from the defaults, a YAML file, the
// environment and flags, where later sources override earlier ones. Every key is one row of the table in table.go; the parser, the
// checks and docs/config.md follow from it.
package config

import (
	"net/netip"
	"time"
)

// Prefix begins the name of every key in the environment.
const Prefix = "SANDBOX_"

// Config is the effective configuration. docs/config.md describes each field. Load makes one.
type Config struct {
	// The server.
	Listen         string // host:port, or unix:/path
	Data           string // "" is the default
	TLSCert        string
	TLSKey         string
	PublicURL      string
	TrustedProxies []netip.Prefix
	AllowedOrigins []string
	MetricsOpen    bool
	WebUI          bool
	PreviewDomain  string // host or host:port; "" has no previews
	PreviewPublic  bool

	// Authentication.
	APIKey       string // "" generates one, stored in the data folder
	JWTSecret    string
	OIDCIssuer   string
	OIDCAudience string

	// Execution and isolation.
	EnableExecution       bool
	BackgroundExecution   bool
	DefaultRuntime        string
	Runtimes              []string
	TrustLevels           []string // level=isolation
	DefaultTrustLevel     string   // "" means none
	DefaultImage          string
	AllowWeak             []string
	SupportedSpecVersions []string

	// The network of sandboxes.
	NetworkDefault   string
	EgressAllow      []string
	EgressAllowUsers []string // user=rule
	EgressAllowTrust []string // level=rule
	EgressPorts      []uint16
	EgressPrivate    bool
	EgressPresets    []string // of [belljar.EgressPresets]
	PackageMirrors   []string // kind=URL
	PackageTTLHours  int
	PackageTimeout   time.Duration
	PackageMaxMB     int    // MiB
	PackageKeepMB    int    // MiB
	EgressResolver   string // "" uses the system's
	EgressCAFile     string // "" trusts the image's alone

	// Approvals.
	Approval                            []string // rules
	ApprovalTTL                         time.Duration
	MaxApprovals                        int
	MaxUserApprovals                    int
	ApprovalWebhook, ApprovalWebhookKey string

	// The docker runtime.
	DockerHost            string // "" uses DOCKER_HOST
	DockerOCIRuntime      string // "" uses the engine's default
	DockerSeccomp         string // a file; "" is Belljar's own profile
	DockerAppArmorProfile string // by name; "" uses the engine's default
	DockerCgroupParent    string // "" uses the engine's default

	// Workspaces on another machine.
	WorkspaceURL, WorkspaceKey     string
	SpritesBaseURL, SpritesToken   string
	SpriteName                     string
	SpriteHost, SpritePath         string // of the workspace service
	SpritePort                     int
	SpriteServiceToken             string // "" derives it from SpritesToken
	SpriteWorkspace, SpriteService string // folders in the sprite

	// The gvisor runtime.
	GVisorPath     string // of belljar-runsc; "" searches for it
	GVisorPlatform string

	NativePTYs bool

	// Images.
	AllowedImages   []string // patterns; empty allows every image
	ImagePull       string   // missing | never
	ImageRegistries []string // host or host:port
	ImageAliases    []string // name=image
	ImagePrepull    []string
	ImageMaxMB      int // MiB, of one image
	ImageGCDays     int // 0 disables it
	ImageKeepMB     int // MiB; 0 is no limit
	GoCache         bool

	// Limits of one run.
	DefaultCPU          float64 // cores
	DefaultMemMB        int     // MiB
	MaxCPU              float64 // cores
	MaxMemMB            int     // MiB
	PidsLimit           int
	UlimitNoFile        int
	UlimitNProc         int
	WorkspaceCapMB      int   // MiB
	TmpMB               int   // MiB
	MaxLogBytes         int64 // bytes
	MaxArtifactRunMB    int   // MiB
	MaxUploadMB         int   // MiB
	MaxUploadFiles      int
	MaxUploadDepth      int
	StartupTimeout      time.Duration
	MaxStartupTimeout   time.Duration
	ExecTimeout         time.Duration
	BuildTimeout        time.Duration
	MaxExecTimeout      time.Duration
	CPUTime             time.Duration // 0 means no limit
	MaxCPUTime          time.Duration
	CancelGrace         time.Duration
	InteractiveFrame    int64 // bytes
	InteractiveBytes    int64 // bytes
	InteractiveBPS      int64 // bytes per second
	InteractiveIdleTime time.Duration

	// The memory of all sandboxes together.
	NodeMemoryMB     int    // MiB; 0 uses a share of the machine's memory
	MemoryAdmission  string // used | caps
	MemoryOvercommit float64

	// Sessions, the queue and quotas.
	SessionTTL            time.Duration
	MaxSessionTTL         time.Duration
	Hibernate             time.Duration // 0 is never
	SessionLifetime       time.Duration
	MaxSessionLifetime    time.Duration
	SessionConcurrentRuns int // per session
	ReapEvery             time.Duration
	Lease                 time.Duration
	EndSessions           bool
	Drain                 time.Duration
	MaxSessions           int // on this node
	QuotaSessions         int // per user; 0 means no limit
	MaxConcurrentRuns     int
	QueueMaxLength        int // 0 disables the queue
	QueueTTL              time.Duration
	PoolSize              int // of one kind; 0 disables the pool
	PoolMax               int // in total; 0 disables the pool
	PoolIdle              time.Duration
	Warm                  string   // auto or off
	WarmPreload           []string // IMAGE=MODULE+MODULE
	QuotaConcurrentRuns   int      // 0 is no limit
	QuotaMemoryMB         int      // MiB; 0 is no limit
	QuotaLogMB            int      // MiB; 0 is no limit
	QuotaCPU              float64  // cores; 0 is no limit
	QuotaCPUSeconds       float64  // per day; 0 is no limit
	QuotaEgressMB         int      // per day; 0 is no limit
	MaxArtifactUserMB     int      // MiB; 0 is no limit
	RateLimitPerMin       int      // 0 is no limit
	RateLimitPerAddress   int      // per minute; 0 is no limit
	WSConnectsPerMin      int      // 0 is no limit

	// The workspace API.
	WorkspaceMode      string // sandbox | local
	WorkspaceDir       string // for mode local
	WorkspaceImage     string // "" is DefaultImage
	WorkspaceTemplates string // JSON; "" is the session's shell
	WorkspaceUser      string // for requests without credentials; "" refuses them
	WorkspaceRoot      bool   // also serve it at /
	WorkspaceTrees     int    // per minute and user; 0 is no limit
	WorkspaceSearches  int    // per minute and user; 0 is no limit

	// The thread door.
	ThreadRoot           bool // also serve it at /
	ThreadGuard          bool
	ThreadCommands       []string // empty allows every command
	ThreadPatterns       []string
	ThreadMaxFileMB      int // MiB of one upload
	ThreadMaxFiles       int
	ThreadMaxWorkspaceMB int // MiB

	MCP               bool
	MCPMode           string   // "" leaves it to the client's URL; likewise the next three
	MCPTools          []string // empty means all
	MCPAllow          []string
	MCPAllowPresets   []string
	MCPImage          string
	MCPRuntime        string
	MCPTimeoutSec     int // seconds; 0 uses the general limit; likewise the next four
	MCPCPU            float64
	MCPMemoryMB       int
	MCPWorkspaceMB    int
	MCPIdleSec        int // seconds, of a sandbox
	MCPSessionIdleSec int
	MCPWaitSec        int
	MCPMaxOutput      int // bytes

	// Streams.
	WSSignedURLs    bool
	WSSignedURLTTL  time.Duration
	WSSigningSecret string // "" generates one, stored in the data folder
	WSPollTimeout   time.Duration
	WSSynthetic     bool // always false

	PortConnections int // per session

	// Terminals.
	SessionTokenSecret  string // "" derives it from WSSigningSecret
	TerminalTokenTTL    time.Duration
	TerminalReattach    time.Duration
	TerminalIdle        time.Duration // 0 is no limit
	TerminalLifetime    time.Duration // 0 is no limit
	TerminalsPerSession int           // 0 is no limit
	ContextsPerSession  int           // at most 15, the maximum of an agent besides the session's shell
	ContextIdle         time.Duration // 0 is never
	TerminalsPerUser    int           // 0 is no limit
	TerminalHistory     int           // bytes
	TerminalInputBPS    int64         // bytes per second
	TerminalOutputBPS   int64         // bytes per second

	// Records and logs.
	Store            string // memory | sqlite
	StoreDBPath      string // "" is in the data folder
	IdempotencyTTL   time.Duration
	ArtifactTTLHours int

	SnapshotTTLHours   int // 0 is forever
	SnapshotMaxMB      int
	SnapshotMaxFiles   int
	SnapshotsPerUser   int // 0 is no limit
	SnapshotKeepMB     int
	DiskWorkspaceMB    int // 0 allows none
	RunRetentionDays   int
	MinFreeMB          int // MiB; 0 disables the check
	SecretsKeyRotate   bool
	AuditRetentionDays int
	AuditRedactPaths   bool
	LogFormat          string // json | text
	LogLevel           string // debug | info | warn | error

	origins map[string]string // source of each key that is set explicitly
	loose   []string          // warnings about the sources
	file    string            // absolute path; "" is none
}

// File returns the absolute path of the file that was read; "" is none.
func (c *Config) File() string { return c.file }

// Set reports whether a key (its environment name) is set explicitly, and where: "SANDBOX_LISTEN in the environment".
func (c *Config) Set(name string) (origin string, ok bool) {
	origin, ok = c.origins[name]
	return origin, ok
}
