// Package config is what an operator can set: one typed [Config], made by [Load] from the defaults, a YAML file, the
// environment and flags, each winning over those before it. Every key is one row of the table in table.go; the parser,
// the checks and docs/config.md follow from it.
package config

import (
	"net/netip"
	"time"
)

// Prefix begins the name of every key in the environment.
const Prefix = "SANDBOX_"

// Config is what is in force. docs/config.md says what each field means; make one with [Load].
type Config struct {
	// The server.
	Listen         string // host:port, or unix:/path
	Data           string // "" is the usual place
	TLSCert        string
	TLSKey         string
	PublicURL      string
	TrustedProxies []netip.Prefix
	AllowedOrigins []string
	MetricsOpen    bool

	// Who may come in.
	APIKey       string // "" is made once and kept in the data folder
	JWTSecret    string
	OIDCIssuer   string
	OIDCAudience string

	// What runs, and how sealed.
	EnableExecution       bool
	BackgroundExecution   bool
	DefaultRuntime        string
	Runtimes              []string
	TrustLevels           []string // level=isolation
	DefaultTrustLevel     string   // "" is none
	DefaultImage          string
	NetworkDefault        string
	AllowWeak             []string
	SupportedSpecVersions []string

	// The docker runtime.
	DockerHost            string // "" is the environment's
	DockerOCIRuntime      string // "" is the engine's default
	DockerSeccomp         string // a file; "" is Belljar's own profile
	DockerAppArmorProfile string // by name; "" is the engine's default
	DockerCgroupParent    string // "" is the engine's default

	// The gvisor runtime.
	GVisorPath     string // of belljar-runsc; "" is looked for
	GVisorPlatform string

	// Images.
	AllowedImages   []string // patterns; empty is every image
	ImagePull       string   // missing | never
	ImageRegistries []string // host or host:port
	ImageAliases    []string // name=image
	ImagePrepull    []string
	ImageMaxMB      int // MiB of one
	ImageGCDays     int // 0 is never
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
	CPUTime             time.Duration // 0 is no limit
	MaxCPUTime          time.Duration
	CancelGrace         time.Duration
	InteractiveFrame    int64 // bytes
	InteractiveBytes    int64 // bytes
	InteractiveBPS      int64 // bytes a second
	InteractiveIdleTime time.Duration

	// The memory of all sandboxes together.
	NodeMemoryMB     int    // MiB; 0 is the usual share of what there is
	MemoryAdmission  string // used | caps
	MemoryOvercommit float64

	// Sessions, the queue and quotas.
	SessionTTL            time.Duration
	MaxSessionTTL         time.Duration
	SessionLifetime       time.Duration
	MaxSessionLifetime    time.Duration
	SessionConcurrentRuns int // at once in one session
	ReapEvery             time.Duration
	Lease                 time.Duration
	EndSessions           bool
	Drain                 time.Duration
	MaxSessions           int // on this node
	QuotaSessions         int // of one user; 0 is no limit
	MaxConcurrentRuns     int
	QueueMaxLength        int // 0 lets nobody wait
	QueueTTL              time.Duration
	PoolSize              int // of one kind; 0 is no pool
	PoolMax               int // in all; 0 is no pool
	PoolIdle              time.Duration
	QuotaConcurrentRuns   int     // 0 is no limit
	QuotaMemoryMB         int     // MiB; 0 is no limit
	QuotaLogMB            int     // MiB; 0 is no limit
	QuotaCPU              float64 // cores; 0 is no limit
	QuotaCPUSeconds       float64 // a day; 0 is no limit
	MaxArtifactUserMB     int     // MiB; 0 is no limit
	RateLimitPerMin       int     // 0 is no limit
	RateLimitPerAddress   int     // a minute; 0 is no limit
	WSConnectsPerMin      int     // 0 is no limit

	// The door for threads.
	ThreadRoot           bool // at the root too
	ThreadGuard          bool
	ThreadCommands       []string // empty is every command
	ThreadPatterns       []string
	ThreadMaxFileMB      int // MiB of one upload
	ThreadMaxFiles       int
	ThreadMaxWorkspaceMB int // MiB

	MCP               bool
	MCPMode           string   // "" leaves it to the client's URL, as the next three
	MCPTools          []string // empty is all
	MCPImage          string
	MCPRuntime        string
	MCPTimeoutSec     int // seconds; 0 is as for everybody, as the next four
	MCPCPU            float64
	MCPMemoryMB       int
	MCPWorkspaceMB    int
	MCPIdleSec        int // of a sandbox
	MCPSessionIdleSec int
	MCPWaitSec        int
	MCPMaxOutput      int // bytes

	// Streams.
	WSSignedURLs    bool
	WSSignedURLTTL  time.Duration
	WSSigningSecret string // "" is made once and kept in the data folder
	WSPollTimeout   time.Duration
	WSSynthetic     bool // always false

	// Terminals.
	SessionTokenSecret  string // "" follows from WSSigningSecret
	TerminalTokenTTL    time.Duration
	TerminalReattach    time.Duration
	TerminalIdle        time.Duration // 0 is no limit
	TerminalLifetime    time.Duration // 0 is no limit
	TerminalsPerSession int           // 0 is no limit
	TerminalsPerUser    int           // 0 is no limit
	TerminalHistory     int           // bytes
	TerminalInputBPS    int64         // bytes a second
	TerminalOutputBPS   int64         // bytes a second

	// What is remembered.
	Store              string // memory | sqlite
	StoreDBPath        string // "" is in the data folder
	IdempotencyTTL     time.Duration
	ArtifactTTLHours   int
	RunRetentionDays   int
	MinFreeMB          int // MiB; 0 is no watermark
	AuditRetentionDays int
	AuditRedactPaths   bool
	LogFormat          string // json | text
	LogLevel           string // debug | info | warn | error

	origins map[string]string // of the keys that somebody set
	loose   []string          // what Warnings says about the sources
}

// Set reports whether somebody set a key (its environment name), and where: "SANDBOX_LISTEN in the environment".
func (c *Config) Set(name string) (origin string, ok bool) {
	origin, ok = c.origins[name]
	return origin, ok
}
