//go:build linux

package native

import (
	"cmp"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/landlock"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/seccomp"
	"github.com/belljar/belljar/internal/linux/warden"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// Name is the runtime's name in requests.
const Name = "native"

// Version is this runtime's version, reported as runtime_version.
const Version = "1"

// Options configure a runtime. Agent becomes PID 1 of every sandbox.
type Options = rack.Options

// Runtime builds sandboxes. It implements [runtime.Runtime].
type Runtime struct {
	*rack.Rack
	// NoPTYs keeps programs from making pseudo-terminals: the kernel processes what they write to them outside all limits of CPU
	// time. The agent still makes them. Set it before the first birth.
	NoPTYs bool

	warden  *warden.Client // for sandboxes that outlive this process
	own     *warden.Client // for those that end with it
	abi     int            // of Landlock, 0 for none
	lastCap int
	// overlays means that this kernel lets a user namespace mount overlays.
	overlays bool
	below    probes // of overlays that the host's root mounts

	mu      sync.Mutex
	filters map[seccomp.Options]seccomp.Filter
	nodes   string // folder with the nodes of /dev; "" before the first birth
	log     *slog.Logger

	// ownNodes is the folder for nodes of our own: [rootfs.OwnDevices] except in tests.
	ownNodes string
	// edit breaks a birth, and returns descriptors that the breakage needs; nil except in tests.
	edit func(*forkexec.Program) []int
	// unrelayed makes agents without a relay, to measure the relay's cost; false except in tests.
	unrelayed bool
}

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ runtime.Tester  = (*Runtime)(nil)
	_ runtime.Claimer = (*Runtime)(nil)
)

// New prepares a runtime. It touches nothing outside RunDir; the first birth or test makes [rootfs.OwnDevices]. The caller must close the
// runtime.
func New(o Options) (*Runtime, error) {
	r := &Runtime{
		abi: landlock.ABI(), lastCap: lastCap(), overlays: overlays(), filters: map[seccomp.Options]seccomp.Filter{}, ownNodes: rootfs.OwnDevices,
		log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
	}
	var err error
	r.Rack, err = rack.Open(rack.Kind{Name: Name, Adopt: r.adopt}, o)
	if err != nil {
		return nil, err
	}
	r.warden = warden.NewClient(r.Jars.WardenSocket(), r.Jars.Agent.File)
	r.own = warden.NewOwnClient(r.Jars.WardenSocket()+"-"+rand.Text(), r.Jars.Agent.File)
	return r, nil
}

// Close releases the resources of New, and removes folders that are now empty. Living sandboxes are not touched.
func (r *Runtime) Close() error {
	ended := r.own.End()
	return errors.Join(r.warden.Close(), r.Jars.Close(), ended())
}

// filter compiles the seccomp filters of each kind once.
func (r *Runtime) filter(o seccomp.Options) (seccomp.Filter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.filters[o]; ok {
		return f, nil
	}
	f, err := seccomp.Sandbox(o)
	if err == nil {
		r.filters[o] = f
	}
	return f, err
}

// lastCap is the highest capability of this kernel.
func lastCap() int {
	raw, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			return n
		}
	}
	return unix.CAP_LAST_CAP
}
