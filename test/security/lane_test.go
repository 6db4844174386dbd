//go:build linux

package security

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

// lane is one way to run belljar on this machine: a runtime, the source of its rights, and its image.
type lane struct {
	name    string // in tests and in the table
	runtime string
	way     string // root, rootless, shared
	ready   bool   // a server has a pool; a program must not detect the difference, let alone profit
	image   string // "" for the default of scripts: the host's, or busybox if there is none
	soak    bool   // only make soak runs it: another way to a runtime that make test already attacks

	home   string // a folder of the lane's user
	uid    int    // 0 for the user who runs the tests
	etc    map[string]string
	ref    string             // the name of image there; "" for the host's
	env    []string           // more of belljar's own environment
	flags  []string           // more flags of belljar run
	serve  []string           // more flags of belljar serve
	engine *engine            // of the docker runtime
	images shelf              // imported so far
	t      *testing.T         // the test of all its trials
	server server             // for sessions, once a trial needs one
	stock  func(t *testing.T) // waits until the pool is full; nil without a pool
	caps   runtime.Capabilities
}

// lanes are all ways for this machine, in the table's order. A lane that is unavailable reports why when it is opened.
func lanes() []*lane {
	return []*lane{
		{name: "native-root", runtime: "native", way: "root"},
		{name: "native-rootless", runtime: "native", way: "rootless"},
		{name: "native-rootless-without-subuids", runtime: "native", way: "shared", soak: true},
		{name: "native-root-ready", runtime: "native", way: "root", ready: true, soak: true},
		{name: "native-image", runtime: "native", way: "root", image: "busybox", soak: true},
		{name: "gvisor-root", runtime: "gvisor", way: "root"},
		{name: "gvisor-rootless", runtime: "gvisor", way: "rootless", image: "busybox", soak: true},
		{name: "docker", runtime: "docker", way: "root", image: "busybox"},
	}
}

// laneNames are the columns of the table.
func laneNames() []string {
	var names []string
	for _, l := range lanes() {
		names = append(names, l.name)
	}
	return names
}

// An unprivileged user that exists only in the mount namespace of the supervisors.
const (
	testUser     = "belljar-test"
	testUID      = 61500
	testSubIDs   = 1_879_048_192 // above every range that distributions and systemd give away
	testIDBlocks = 65536 * 64
)

// open prepares the lane and determines what it can enforce.
func (l *lane) open(t *testing.T) {
	t.Helper()
	if l.soak && !*update { // the table has all lanes
		tier.Soak(t)
	}
	root := os.Geteuid() == 0
	home, err := os.MkdirTemp("", "belljar-lane-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	l.home, l.t = home, t
	switch {
	case l.way == "root" && !root:
		t.Skipf("lane %s cannot run: the tests do not run as root", l.name)
	case l.way == "root":
	case !root && l.way == "rootless":
		l.etc = nil // the tests run as the unprivileged user
	case !root:
		t.Skipf("lane %s cannot run: only root can make a user for it", l.name)
	default:
		l.makeUser(t)
	}
	if l.runtime != "native" {
		l.flags = append(l.flags, "--runtime", l.runtime)
		l.serve = append(l.serve, "--set", "default_runtime="+l.runtime, "--set", "runtimes="+l.runtime)
	}
	if l.runtime == "gvisor" {
		l.env = append(l.env, "SANDBOX_GVISOR_PATH="+runsc)
	}
	if l.runtime == "docker" {
		l.engine = newEngine(t)
		l.env = append(l.env, "DOCKER_HOST="+l.engine.Host())
		l.ref = l.engine.Busybox(t)
	}
	l.env = append(l.env, "SANDBOX_DATA="+filepath.Join(l.home, "data"))
	l.env = append(l.env, build.Patient()...)
	l.env = append(l.env, "SANDBOX_CANCEL_GRACE_SECONDS=1") // attacks ignore TERM, and use the processor until KILL
	l.examine(t)
	if l.image != "" && l.ref == "" {
		ref, err := l.bring(t, l.image)
		if err != nil {
			t.Fatal(err)
		}
		l.ref = ref
	}
}

// examine reads from doctor what the lane's runtime can do here.
func (l *lane) examine(t *testing.T) {
	t.Helper()
	var report struct {
		Runtimes []struct {
			Name string `json:"name"`
			runtime.Capabilities
		} `json:"runtimes"`
	}
	raw := l.trial(t).output(t.Context(), []string{"doctor", "--json"})
	if err := json.Unmarshal(raw, &report); err != nil {
		t.Fatalf("belljar doctor --json: %v\n%s", err, raw)
	}
	for _, r := range report.Runtimes {
		if r.Name != l.runtime {
			continue
		}
		if !r.Available && l.optional(r.Reasons) {
			t.Skipf("lane %s cannot run: %+v", l.name, r.Reasons)
		}
		if !r.Available {
			t.Fatalf("lane %s does not work: %+v", l.name, r.Reasons)
		}
		l.caps = r.Capabilities
		for _, limit := range []string{runtime.ProtectMemory, runtime.ProtectPids, runtime.ProtectCPU} {
			if !l.enforces(limit) { // a script that sets it, but does not test it, runs without
				l.flags = append(l.flags, "--allow-weak", limit)
			}
		}
		return
	}
	t.Fatalf("doctor says nothing about %s:\n%s", l.runtime, raw)
}

// optional reports whether a host may lack a lane for these reasons: a lane that is not built, one whose tests run as an ordinary
// user, or one of users without user namespaces. As root on a machine with everything installed, a missing lane is a failure.
func (l *lane) optional(reasons []runtime.Reason) bool {
	if os.Geteuid() != 0 {
		return true
	}
	if l.runtime == "gvisor" {
		if _, err := os.Stat(runsc); err != nil {
			return !build.Prepared() // make gvisor builds it before make test
		}
	}
	return l.way != "root" && slices.ContainsFunc(reasons, func(r runtime.Reason) bool { return r.Step == "userns" })
}

// root describes the image of the lane's scripts in one word.
func (l *lane) root() string {
	if l.image != "" {
		return l.image
	}
	return "host"
}

// is reports whether a word of a script's header applies to the lane: its name, runtime, way or image, a limit that is enforced
// there (with -by, the way it is enforced), oom-process or oom-sandbox, or agent-user if the agent has another user than programs.
func (l *lane) is(word string) bool {
	if word == "agent-user" {
		return l.runtime != "docker" && l.way != "shared"
	}
	if slices.Contains([]string{l.name, l.runtime, l.way, l.root(), "oom-" + l.caps.OOMScope}, word) {
		return true
	}
	return l.enforces(word)
}

func (l *lane) enforces(limit string) bool {
	name, by, _ := strings.Cut(limit, "-")
	p := l.caps.Protection(name)
	return p.Enforced && strings.Contains(p.By, by)
}

// makeUser writes the files that make testUser exist, with subordinate ids or without.
func (l *lane) makeUser(t *testing.T) {
	t.Helper()
	l.uid = testUID
	l.etc = map[string]string{}
	add := func(path, line string) {
		raw, err := os.ReadFile(path)
		if err != nil {
			need.Missing(t, "lane %s: %v (uidmap)", l.name, err)
		}
		source := filepath.Join(l.home, filepath.Base(path))
		if err := os.WriteFile(source, append(raw, line...), 0o644); err != nil {
			t.Fatal(err)
		}
		l.etc[path] = source
	}
	add("/etc/passwd", fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", testUser, testUID, testUID, l.home))
	add("/etc/group", fmt.Sprintf("%s:x:%d:\n", testUser, testUID))
	ids := ""
	if l.way == "rootless" {
		ids = fmt.Sprintf("%s:%d:%d\n", testUser, testSubIDs, testIDBlocks)
	}
	add("/etc/subuid", ids)
	add("/etc/subgid", ids)
	if err := os.Chown(l.home, testUID, testUID); err != nil {
		t.Fatal(err)
	}
}
