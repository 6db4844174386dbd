// Package local is the contract between the commands and the machine that they run on: everything that a command can do without a
// server. The commands (internal/cli) use this contract and the client of a server; internal/daemon implements it.
package local

import (
	"context"
	"io"
	"io/fs"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// HostImage is the image that shows this machine's own programs, read-only.
const HostImage = runtime.HostRef

// Environment is a process's environment and standard streams.
type Environment struct {
	Env    []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Getenv returns a variable of the environment and whether it is set.
func (w *Environment) Getenv(name string) (string, bool) {
	for i := len(w.Env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(w.Env[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Machine provides everything that commands can do without a server.
type Machine interface {
	Engines
	ImageMaker
	Doors
	Host
}

// Engines opens engines that run programs in this process.
type Engines interface {
	Open(Needs) (*Engine, error)
	OpenBench() (*Bench, error)
}

// ImageMaker opens this machine's image store and makes new images.
type ImageMaker interface {
	Images() (Images, error)
	// FillGoCache builds Go's standard library in an image, through an engine, and keeps the result for runs of that image.
	FillGoCache(ctx context.Context, engine belljar.Service, image string) error
	// Recipes returns the names of the images that Build can make.
	Recipes() []string
	// Build writes the root file system of an image to w, as tar.
	Build(ctx context.Context, b Build, w io.Writer) error
}

// Doors serves other programs.
type Doors interface {
	// Serve runs a server until a signal ends it.
	Serve(context.Context, ServeOptions) error
	// ServeModels speaks the Model Context Protocol until its input ends.
	ServeModels(context.Context, Models) error
	// ServeEditor speaks the Language Server Protocol until its input ends.
	ServeEditor(context.Context, Editor) error
}

// Host describes this machine.
type Host interface {
	// Examine tests every runtime of this binary. config names a file with settings; "" is that of the environment, if any.
	Examine(ctx context.Context, config string) ([]Runtime, error)
	// Elsewhere checks the other belljar that holds the workspaces of the workspace API. asked is false if the settings name none; err is
	// the reason why it cannot be used.
	Elsewhere(ctx context.Context, config string) (asked bool, err error)
	// Agent opens the program that runs inside every sandbox, for this machine's processor.
	Agent() (fs.File, error)
	// Keep replaces this process by one that looks after a sandbox. It returns only on failure.
	Keep(config string) error
}
