package local

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Needs is what a command needs from an engine. Opening more takes time.
type Needs struct {
	Runtime string                           // its name, "" for the default one
	Choose  bool                             // the request selects an isolation class or a trust level
	Image   string                           // the command's image; "" for none besides host
	Note    func(format string, args ...any) // prints the reason why the command takes long; nil prints nothing
}

// Engine is the service in this process, or a client of a server. Commands treat both alike, except for the fields
// below.
type Engine struct {
	belljar.Service
	Remote bool // the service is on a server
	// Kill ends a run immediately, with no grace, by destroying its sandbox. A server's runs are left to the server.
	Kill func(ctx context.Context, id string) error
	// Close ends active work and waits until its cleanup is complete.
	Close func() error
}

// Bench is an engine whose sandboxes can be measured.
type Bench struct {
	*Engine
	WaitIdle     func()                                                 // waits until no run and no teardown is in progress
	MeasureIdle  func(ctx context.Context, n int) (*IdleWeight, error)  // n idle sandboxes
	MeasureCrowd func(ctx context.Context, n int) (*CrowdResult, error) // n sandboxes at the same time
}

// IdleWeight is the memory that an idle sandbox uses on the host, in bytes, on average.
type IdleWeight struct {
	Sandboxes int   `json:"sandboxes"`
	Cgroup    int64 `json:"cgroup_bytes"`    // memory charged to its cgroup, the agent's own included
	AgentPSS  int64 `json:"agent_pss_bytes"` // the agent's share of all memory it maps
}

// CrowdResult is the result of creating many sandboxes at the same time.
type CrowdResult struct {
	Sandboxes  int     `json:"sandboxes"`
	CreateMS   float64 `json:"create_ms"`  // until all of them ran
	DestroyMS  float64 `json:"destroy_ms"` // until all of them were removed
	Left       int     `json:"left"`       // processes, descriptors and folders that remained
	LeftDetail string  `json:"left_detail,omitempty"`
}

// Images is this machine's image store.
type Images interface {
	belljar.Images
	Close() error
}

// Build describes an image to make of Debian packages.
type Build struct {
	Recipe   string
	Names    []string     // of the image: an invalid one costs no build
	Packages []string     // from Debian, besides the recipe's
	Suite    string       // Debian's release, "" for this machine's
	Mirror   string       // server of the packages, "" for this machine's sources
	Log      func(string) // receives lines of progress
}

// ServeOptions are the options of belljar serve.
type ServeOptions struct {
	Listen string            // address, "" for the configured one
	Data   string            // folder, "" for the configured one
	Config string            // file with settings, "" for none
	Set    map[string]string // settings from the command line
	JSON   bool              // print the ready message as JSON
	// Private serves the one program at the other end of standard input, and ends with it.
	Private bool
}

// Models is a host of models at the other end of a stream, and the terms for its sandboxes.
type Models struct {
	Service   belljar.Service
	Runtimes  []string // available ones
	Image     string   // for one-shot runs that name none
	Toolset   belljar.Toolset
	Tools     []string // to offer; empty means all
	Capture   []string
	Wait      time.Duration
	MaxOutput int
	In        io.Reader
	Out       io.Writer
	Logger    *slog.Logger
}

// ErrNoShutdown is the error for an editor that ended without a shutdown request.
var ErrNoShutdown = errors.New("the editor ended without a shutdown request")

// Editor is an editor at the other end of a stream.
type Editor struct {
	// Open returns the engine for its runs. It is called for the first command that needs it.
	Open func() (*Engine, error)
	// OnRetry returns a context with which calls of a server's engine call say each time that the server does not
	// answer.
	OnRetry func(ctx context.Context, say func(error)) context.Context
	URL     string // of the engine's server, for links; "" for none
	In      io.Reader
	Out     io.Writer
}

// Runtime is a runtime of this binary, and its capabilities on this machine.
type Runtime struct {
	Name string `json:"name"`
	runtime.Capabilities
}
