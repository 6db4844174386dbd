//go:build linux

package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wholeV2 is a machine with only cgroup2, on which this process is in the root.
func wholeV2(t *testing.T) *fake {
	f := newFake(t, "0::/system.slice/ssh.service", mountLine("cgroup2", "/", "/sys/fs/cgroup", "rw", "nsdelegate"))
	f.v2root("/sys/fs/cgroup", "cpuset cpu io memory pids", "1\n2")
	f.v2("/sys/fs/cgroup/system.slice/ssh.service", "", "", "77")
	return f
}

// wholeV1 is a machine with v1 only.
func wholeV1(t *testing.T) *fake {
	f := newFake(t, "4:memory:/outer/us\n3:pids:/\n2:cpu,cpuacct:/",
		mountLine("cgroup", "/", "/sys/fs/cgroup/memory", "rw", "memory"),
		mountLine("cgroup", "/", "/sys/fs/cgroup/pids", "rw", "pids"),
		mountLine("cgroup", "/", "/sys/fs/cgroup/cpu,cpuacct", "rw", "cpu,cpuacct"))
	f.put("/sys/fs/cgroup/memory/outer/us/memory.memsw.limit_in_bytes", "9223372036854771712")
	for _, dir := range []string{"memory/outer/us", "pids", "cpu,cpuacct"} {
		f.put("/sys/fs/cgroup/"+dir+"/cgroup.procs", "")
	}
	return f
}

var allLimits = Limits{Memory: 64<<20 + 1, Pids: 10, CPU: 0.5}

func fakeCreate(t *testing.T, h *Host, s Spec) *Group {
	t.Helper()
	g, err := h.Create(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.CloseEntry)
	return g
}

func capabilities(h *Host) string {
	var list []string
	for _, c := range h.Capabilities() {
		if c.Enforced {
			list = append(list, c.By)
		}
	}
	return strings.Join(list, ", ")
}

func TestPureV2(t *testing.T) {
	f := wholeV2(t)
	h := f.discover()
	if got := capabilities(h); got != "cgroup2 memory.max, cgroup2 pids.max, cgroup2 cpu.max" {
		t.Errorf("enforced: %s", got)
	}
	g := fakeCreate(t, h, Spec{Installation: "i", ID: "s", Limits: allLimits, Owner: &Owner{UID: os.Getuid(), GID: os.Getgid()}})
	const dir = "/sys/fs/cgroup/belljar/i/s"
	for file, want := range map[string]string{
		"memory.max": "67112960", "memory.swap.max": "0", "pids.max": "10", "cpu.max": "50000 100000", "cgroup.max.descendants": maxChildren, "cgroup.max.depth": maxDepth,
		"../cgroup.subtree_control": "memory pids cpu", "../../cgroup.subtree_control": "memory pids cpu",
	} {
		if got := f.get(dir + "/" + file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if g.FD() < 0 || len(g.TaskFDs()) != 0 {
		t.Errorf("entered through %d and %v", g.FD(), g.TaskFDs())
	}
	if got := f.get("/sys/fs/cgroup/cgroup.procs"); got != "1\n2" {
		t.Errorf("processes of the real root were moved, it has %q", got)
	}
	u := g.Usage()
	if *u.CPU != 7*time.Microsecond || *u.Memory != 4096 || *u.PeakMemory != 8192 || *u.OOMKills != 1 || *u.Pids != 2 || *u.PidsRefused != 3 || u.PeakPids != nil {
		t.Errorf("usage %+v", u)
	}
	if u.Sources["peak_memory"] != "cgroup2 memory.peak" || u.Sources["peak_pids"] != "" {
		t.Errorf("sources %v", u.Sources)
	}
	if killed, err := g.Kill(); !killed || err != nil || f.get(dir+"/cgroup.kill") != "1" {
		t.Errorf("kill: %v, %v", killed, err)
	}
}

func TestPureV1(t *testing.T) {
	f := wholeV1(t)
	h := f.discover()
	if got := capabilities(h); got != "cgroup1 memory.limit_in_bytes, cgroup1 pids.max, cgroup1 cpu.cfs_quota_us" {
		t.Errorf("enforced: %s", got)
	}
	f.put("/sys/fs/cgroup/memory/outer/us/belljar/memory.memsw.limit_in_bytes", "9223372036854771712")
	f.put("/sys/fs/cgroup/memory/outer/us/belljar/i/memory.memsw.limit_in_bytes", "9223372036854771712")
	g := fakeCreate(t, h, Spec{Installation: "i", ID: "s", Limits: allLimits})
	for file, want := range map[string]string{
		"memory/outer/us/belljar/i/s/memory.limit_in_bytes":       "67112960",
		"memory/outer/us/belljar/i/s/memory.memsw.limit_in_bytes": "67112960",
		"pids/belljar/i/s/pids.max":                               "10",
		"cpu,cpuacct/belljar/i/s/cpu.cfs_quota_us":                "50000",
	} {
		if got := f.get("/sys/fs/cgroup/" + file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if g.FD() != -1 || g.ExecDir() != -1 || len(g.TaskFDs()) != 3 {
		t.Errorf("entered through %d and %v, with %d for execs", g.FD(), g.TaskFDs(), g.ExecDir())
	}
	if u := g.Usage(); *u.CPU != 1500 || u.Sources["cpu"] != "cgroup1 cpuacct.usage" {
		t.Errorf("cpu %v from %q", u.CPU, u.Sources["cpu"])
	}
	if killed, err := g.Kill(); killed || err != nil {
		t.Errorf("kill: %v, %v; v1 cannot", killed, err)
	}
}

func TestV1WithoutSwapAccounting(t *testing.T) {
	f := wholeV1(t)
	if err := os.Remove(f.path("/sys/fs/cgroup/memory/outer/us/memory.memsw.limit_in_bytes")); err != nil {
		t.Fatal(err)
	}
	if c := f.discover().Capability(Memory); !c.Enforced || c.Weaker != "" {
		t.Errorf("without swap: %+v, want nothing weaker", c)
	}
	f.put("/proc/swaps", "Filename\n/dev/x\n")
	h := f.discover()
	if c := h.Capability(Memory); !c.Enforced || c.Weaker == "" || c.Hint == "" {
		t.Errorf("with swap: %+v, want it called weaker", c)
	}
	fakeCreate(t, h, Spec{Installation: "i", ID: "s", Limits: allLimits})
	if got := f.get("/sys/fs/cgroup/memory/outer/us/belljar/i/s/memory.swappiness"); got != "0" {
		t.Errorf("swappiness %s", got)
	}
}

func TestV1CPUUnderATighterOuterLimit(t *testing.T) {
	f := wholeV1(t)
	f.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "20000")
	f.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000")
	f.refuse["/sys/fs/cgroup/cpu,cpuacct/belljar/i/s/cpu.cfs_quota_us"] = unix.EINVAL
	fakeCreate(t, f.discover(), Spec{Installation: "i", ID: "s", Limits: Limits{CPU: 0.5}})

	f.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1")
	f.refuse["/sys/fs/cgroup/cpu,cpuacct/belljar/i/other/cpu.cfs_quota_us"] = unix.EINVAL
	var refused *LimitError
	if _, err := f.discover().Create(Spec{Installation: "i", ID: "other", Limits: Limits{CPU: 0.5}}); !errors.As(err, &refused) || refused.Limit != CPU {
		t.Errorf("an unexplained refusal: %v, want a LimitError", err)
	}
}

// Hybrid as systemd mounts it: v1 has the controllers; cgroup2 separates execs and notifies.
func TestHybrid(t *testing.T) {
	f := newFake(t, "3:pids:/\n0::/us",
		mountLine("cgroup", "/", "/sys/fs/cgroup/pids", "rw", "pids"),
		mountLine("cgroup2", "/", "/sys/fs/cgroup/unified", "rw", ""))
	f.v2root("/sys/fs/cgroup/unified", "hugetlb", "1")
	f.put("/sys/fs/cgroup/pids/cgroup.procs", "")
	h := f.discover()
	if got := capabilities(h); got != "cgroup1 pids.max" {
		t.Errorf("enforced: %s", got)
	}
	g := fakeCreate(t, h, Spec{Installation: "i", ID: "s", Limits: Limits{Pids: 5}})
	if g.FD() < 0 || len(g.TaskFDs()) != 1 || g.Folders()[0].Version != 2 {
		t.Errorf("entered through %d and %v, folders %v", g.FD(), g.TaskFDs(), g.Folders())
	}
	if u := g.Usage(); u.Sources["cpu"] != "cgroup2 cpu.stat" || u.Sources["pids"] != "cgroup1 pids.current" {
		t.Errorf("sources %v", u.Sources)
	}
	var refused *LimitError
	if _, err := h.Create(Spec{Installation: "i", ID: "m", Limits: Limits{Memory: 1 << 20}}); !errors.As(err, &refused) || refused.Limit != Memory || refused.Hint == "" {
		t.Errorf("memory limit without the controller: %v", err)
	}
}

// A container's private cgroup: its root holds the container's processes, which have to move to a leaf.
func TestContainerWithAPrivateCgroup(t *testing.T) {
	f := newFake(t, "0::/", mountLine("cgroup2", "/", "/sys/fs/cgroup", "rw", "nsdelegate"))
	f.v2("/sys/fs/cgroup", "cpu memory pids", "", "1\n12\n34")
	h := f.discover()
	if got := f.get("/sys/fs/cgroup/cgroup.procs"); got != "1\n12\n34" {
		t.Errorf("looking moved processes: %q are left", got)
	}
	fakeCreate(t, h, Spec{Installation: "i", ID: "s", Limits: allLimits})
	if got := f.get("/sys/fs/cgroup/belljar-init/cgroup.procs"); got != "1\n12\n34" {
		t.Errorf("the leaf has %q", got)
	}
	if got := f.get("/sys/fs/cgroup/belljar/i/s/pids.max"); got != "10" {
		t.Errorf("pids.max %q", got)
	}
}

func TestContainerWithAReadOnlyCgroup(t *testing.T) {
	f := newFake(t, "0::/", mountLine("cgroup2", "/", "/sys/fs/cgroup", "ro,nosuid", ""))
	f.v2("/sys/fs/cgroup", "cpu memory pids", "", "1")
	h := f.discover()
	for _, c := range h.Capabilities() {
		if c.Enforced || !strings.Contains(c.Hint, "read-only") {
			t.Errorf("%+v", c)
		}
	}
	var refused *LimitError
	if _, err := h.Create(Spec{Installation: "i", ID: "s", Limits: Limits{Pids: 3}}); !errors.As(err, &refused) || refused.Limit != Pids {
		t.Errorf("%v", err)
	}
	g := fakeCreate(t, h, Spec{Installation: "i", ID: "s"})
	if len(g.Folders()) != 0 {
		t.Errorf("folders %v without any limit and any cgroup", g.Folders())
	}
}

func TestContainerThatSeesAPartOfTheHostsTree(t *testing.T) {
	f := newFake(t, "0::/docker/abc", mountLine("cgroup2", "/docker/abc", "/sys/fs/cgroup", "rw", ""))
	f.v2("/sys/fs/cgroup", "memory pids cpu", "", "1")
	fakeCreate(t, f.discover(), Spec{Installation: "i", ID: "s", Limits: allLimits})
	if got := f.get("/sys/fs/cgroup/belljar/i/s/pids.max"); got != "10" {
		t.Errorf("pids.max %q", got)
	}
}

// An ordinary user under systemd: user@1000.service is delegated; the folders above belong to root.
func TestDelegatedToAUser(t *testing.T) {
	const service = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service"
	f := newFake(t, "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope", mountLine("cgroup2", "/", "/sys/fs/cgroup", "rw", ""))
	f.v2root("/sys/fs/cgroup", "cpu memory pids", "1")
	f.v2("/sys/fs/cgroup/user.slice/user-1000.slice", "memory pids", "memory pids", "")
	f.v2(service, "memory pids", "memory pids", "")
	f.v2(service+"/app.slice", "memory pids", "", "")
	f.v2(service+"/app.slice/run-1.scope", "", "", "77")
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup/user.slice/user-1000.slice"} {
		f.foreign[dir] = true
	}
	h := f.discover()
	if got := capabilities(h); got != "cgroup2 memory.max, cgroup2 pids.max" {
		t.Errorf("enforced: %s", got)
	}
	if c := h.Capability(CPU); c.Enforced || !strings.Contains(c.Hint, "Delegate=cpu") {
		t.Errorf("%+v", c)
	}
	g := fakeCreate(t, h, Spec{Installation: "i", ID: "s", Limits: Limits{Memory: 1 << 20, Pids: 3}})
	if got := g.Folders()[0].Path; got != f.path(service+"/belljar/i/s") {
		t.Errorf("made at %s", got)
	}
	if got := f.get(service + "/app.slice/run-1.scope/cgroup.procs"); got != "77" {
		t.Errorf("our own processes were moved")
	}
}

func TestNothingDelegatedToAUser(t *testing.T) {
	f := newFake(t, "0::/user.slice/user-1000.slice/session-3.scope", mountLine("cgroup2", "/", "/sys/fs/cgroup", "rw", ""))
	f.v2root("/sys/fs/cgroup", "cpu memory pids", "1")
	f.v2("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope", "memory pids", "", "77")
	f.foreign["/sys/fs/cgroup"] = true
	f.foreign["/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope"] = true
	for _, c := range f.discover().Capabilities() {
		if c.Enforced || !strings.Contains(c.Hint, "systemd-run --user --scope") {
			t.Errorf("%+v", c)
		}
	}
}

func TestKernelWithoutTheMemoryController(t *testing.T) {
	f := wholeV2(t)
	f.put("/sys/fs/cgroup/cgroup.controllers", "cpu pids")
	h := f.discover()
	if c := h.Capability(Memory); c.Enforced || !strings.Contains(c.Hint, "cgroup_enable=memory") {
		t.Errorf("%+v", c)
	}
	if u := fakeCreate(t, h, Spec{Installation: "i", ID: "s", Limits: Limits{Pids: 1}}).Usage(); u.Memory != nil || u.OOMKills != nil {
		t.Errorf("memory figures from nowhere: %+v", u)
	}
}

// After a failure in the last hierarchy, the folders in the others are removed.
func TestFailedCreateLeavesNothing(t *testing.T) {
	f := wholeV1(t)
	f.refuse["/sys/fs/cgroup/cpu,cpuacct/belljar/i/s/cpu.cfs_quota_us"] = unix.EIO
	h := f.discover()
	if _, err := h.Create(Spec{Installation: "i", ID: "s", Limits: Limits{Pids: 1, CPU: 1}}); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "cpu.cfs_quota_us") {
		t.Errorf("%v, want the file and its error", err)
	}
	if ids, err := h.List("i"); len(ids) != 0 || err != nil {
		t.Errorf("left: %v, %v", ids, err)
	}
}

func TestALimitThatTheKernelIgnoresIsRefused(t *testing.T) {
	f := wholeV2(t)
	k := f.kernel()
	k.write = func(name, value string) error {
		if strings.HasSuffix(name, "/pids.max") {
			return nil
		}
		return f.write(name, value)
	}
	h, err := discover(Options{Root: f.root}, k)
	if err != nil {
		t.Fatal(err)
	}
	var refused *LimitError
	if _, err := h.Create(Spec{Installation: "i", ID: "s", Limits: Limits{Pids: 7}}); !errors.As(err, &refused) || !strings.Contains(err.Error(), `reads "max"`) {
		t.Errorf("%v", err)
	}
}

// Another process that shares the installation sweeps its folders between any two of our steps.
func TestSweptMeanwhile(t *testing.T) {
	for name, f := range map[string]*fake{"v1": wholeV1(t), "v2": wholeV2(t)} {
		t.Run(name, func(t *testing.T) {
			k := f.kernel()
			swept := map[string]bool{}
			k.mkdir = func(dir string) error {
				if above := filepath.Dir(dir); filepath.Base(dir) != folderName && !swept[dir] {
					swept[dir] = true
					f.rmdir(above)
				}
				return f.mkdir(dir)
			}
			h, err := discover(Options{Root: f.root}, k)
			if err != nil {
				t.Fatal(err)
			}
			fakeCreate(t, h, Spec{Installation: "i", ID: "s"})
			if len(swept) < 2 {
				t.Errorf("swept above %v only", swept)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	f := wholeV1(t)
	h := f.discover()
	fakeCreate(t, h, Spec{Installation: "i", ID: "s"})
	f.busy[f.path("/sys/fs/cgroup/pids/belljar/i/s")] = 3
	if err := h.Remove(context.Background(), "i", "s"); err != nil {
		t.Error(err)
	}
	if err := h.Remove(context.Background(), "i", "s"); err != nil {
		t.Errorf("again: %v", err)
	}

	g := fakeCreate(t, h, Spec{Installation: "i", ID: "t"})
	f.busy[f.path("/sys/fs/cgroup/pids/belljar/i/t")] = 1 << 30
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := g.Remove(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, unix.EBUSY) {
		t.Errorf("a folder that stays busy: %v", err)
	}
	h.Sweep("i")
	if ids, _ := h.List("i"); len(ids) != 1 {
		t.Errorf("swept although a group is left: %v", ids)
	}
	f.busy = map[string]int{}
	if err := g.Remove(context.Background()); err != nil {
		t.Error(err)
	}
	h.Sweep("i")
	if exists(f.path("/sys/fs/cgroup/pids/belljar")) {
		t.Error("an empty folder is left")
	}
	fakeCreate(t, h, Spec{Installation: "i", ID: "s"}) // and can be made again
}

func TestRemoveTakesChildrenAlong(t *testing.T) {
	f := wholeV2(t)
	h := f.discover()
	g := fakeCreate(t, h, Spec{Installation: "i", ID: "s"})
	for _, child := range []string{"/run-1", "/run-1/deep", "/run-2"} {
		if err := f.mkdir(g.Folders()[0].Path + child); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Remove(context.Background(), "i", "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(g.Folders()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after removal: %v", err)
	}
}

func TestBadNames(t *testing.T) {
	h := wholeV2(t).discover()
	for _, name := range []string{"", ".", "..", "a//b", "../x", "cgroup.kill", strings.Repeat("x", 300), "a\x00b"} {
		for _, s := range []Spec{{Installation: name, ID: "s"}, {Installation: "i", ID: name}} {
			if _, err := h.Create(s); err == nil {
				t.Errorf("created %+v", s)
			}
			if err := h.Remove(context.Background(), s.Installation, s.ID); err == nil {
				t.Errorf("removed %+v", s)
			}
		}
	}
}

func TestAControllerThatCouldNotBeTurnedOnIsTriedAgain(t *testing.T) {
	f := wholeV2(t)
	control := "/sys/fs/cgroup/cgroup.subtree_control"
	f.refuse[control] = unix.EINVAL // as with cpu, while a group has real-time processes
	h := f.discover()
	if err := h.Prepare("i"); err != nil {
		t.Fatal(err)
	}
	var refused *LimitError
	if _, err := h.Create(Spec{Installation: "i", ID: "s", Limits: allLimits}); !errors.As(err, &refused) || refused.Hint == "" {
		t.Errorf("%v, want the file that refused and a hint", err)
	}
	delete(f.refuse, control)
	if _, err := h.Create(Spec{Installation: "i", ID: "s", Limits: allLimits}); !errors.As(err, &refused) || !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v, want that the folder below has no such controller", err)
	}
	for _, dir := range []string{"belljar", "belljar/i"} { // which the kernel does
		f.put("/sys/fs/cgroup/"+dir+"/cgroup.controllers", "cpu memory pids")
	}
	fakeCreate(t, h, Spec{Installation: "i", ID: "s", Limits: allLimits})
	if got := f.get("/sys/fs/cgroup/belljar/i/s/cpu.max"); got == "max 100000" {
		t.Errorf("cpu.max %q", got)
	}
}
