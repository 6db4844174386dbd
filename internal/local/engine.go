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

// Needs is what a command needs of an engine. Opening more takes time.
type Needs struct {
	Runtime string                           // its name, "" for the default one
	Choose  bool                             // a class of isolation or a trust level is asked for
	Image   string                           // that the command is about; "" for none besides host
	Note    func(format string, args ...any) // prints why the command takes long; nil prints nothing
}

// Engine is what the commands use: the service in this process, or a client of a server. Both are the same to
// them, but for what only this process can do.
type Engine struct {
	belljar.Service
	Remote bool // a server's
	// Kill ends a run at once, with no grace: its sandbox is destroyed under it. A server's runs are left to the server.
	Kill func(ctx context.Context, id string) error
	// Close ends what is under way and waits until nothing is left of it.
	Close func() error
}

// Bench is an engine whose sandboxes can be measured.
type Bench struct {
	*Engine
	WaitIdle     func()                                                 // waits until no run and no teardown is under way
	MeasureIdle  func(ctx context.Context, n int) (*IdleWeight, error)  // n idle sandboxes
	MeasureCrowd func(ctx context.Context, n int) (*CrowdResult, error) // n sandboxes at once
}

// IdleWeight is what an idle sandbox takes of the host's memory, in bytes, on average.
type IdleWeight struct {
	Sandboxes int   `json:"sandboxes"`
	Cgroup    int64 `json:"cgroup_bytes"`    // memory charged to its cgroup, the agent's own included
	AgentPSS  int64 `json:"agent_pss_bytes"` // the agent's share of all memory it maps
}

// CrowdResult is what came of many sandboxes at once.
type CrowdResult struct {
	Sandboxes  int     `json:"sandboxes"`
	CreateMS   float64 `json:"create_ms"`  // until all of them ran
	DestroyMS  float64 `json:"destroy_ms"` // until all of them were gone
	Left       int     `json:"left"`       // processes, descriptors and folders that remained
	LeftDetail string  `json:"left_detail,omitempty"`
}

// Images are the images of this machine.
type Images interface {
	belljar.Images
	Close() error
}

// Build is an image to be made of Debian packages.
type Build struct {
	Recipe   string
	Names    []string     // that the image gets: an invalid one costs no build
	Packages []string     // of Debian, besides the recipe's
	Suite    string       // Debian's release, "" for this machine's
	Mirror   string       // where the packages are, "" for this machine's sources
	Log      func(string) // receives lines of progress
}

// ServeOptions is what belljar serve was asked for.
type ServeOptions struct {
	Listen string            // address, "" as the configuration says
	Data   string            // folder, "" as the configuration says
	Config string            // file with settings, "" for none
	Set    map[string]string // settings from the command line
	JSON   bool              // say what is served as JSON
	// Private serves the one program at the other end of standard input, and ends with it.
	Private bool
}

// Models is a host of models at the other end of a stream, and the terms on which it gets sandboxes.
type Models struct {
	Service   belljar.Service
	Runtimes  []string // that can be had
	Image     string   // of one-shot runs that name none
	Toolset   belljar.Toolset
	Tools     []string // to be offered; none is all
	Capture   []string
	Wait      time.Duration
	MaxOutput int
	In        io.Reader
	Out       io.Writer
	Logger    *slog.Logger
}

// ErrNoShutdown is the error for an editor that ended without saying so first.
var ErrNoShutdown = errors.New("the editor ended without a shutdown request")

// Editor is an editor at the other end of a stream.
type Editor struct {
	// Open returns the engine for its runs. It is called at the first command that needs it.
	Open func() (*Engine, error)
	// OnRetry returns a context under which calls of a server's engine say each time that the server does not answer.
	OnRetry func(ctx context.Context, say func(error)) context.Context
	URL     string // of the engine's server, for links; "" for none
	In      io.Reader
	Out     io.Writer
}

// Runtime is a runtime of this binary and what it can do here.
type Runtime struct {
	Name string `json:"name"`
	runtime.Capabilities
}
