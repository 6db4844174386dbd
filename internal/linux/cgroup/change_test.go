//go:build linux

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var otherLimits = Limits{Memory: 128 << 20, Pids: 20, CPU: 2}

func TestChangeV2(t *testing.T) {
	f := wholeV2(t)
	g := fakeCreate(t, f.discover(), Spec{Installation: "i", ID: "s", Limits: allLimits})
	if err := g.Change(allLimits, otherLimits); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"memory.max": "134217728", "memory.swap.max": "0", "pids.max": "20", "cpu.max": "200000 100000",
	} {
		if got := f.get("/sys/fs/cgroup/belljar/i/s/" + file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
}

// The kernel refuses a memory limit above that of memory and swap together, in either direction of the change.
func TestChangeV1(t *testing.T) {
	f := wholeV1(t)
	h := f.discover()
	f.put("/sys/fs/cgroup/memory/outer/us/belljar/memory.memsw.limit_in_bytes", "9223372036854771712")
	f.put("/sys/fs/cgroup/memory/outer/us/belljar/i/memory.memsw.limit_in_bytes", "9223372036854771712")
	g := fakeCreate(t, h, Spec{Installation: "i", ID: "s", Limits: allLimits})
	const dir = "/sys/fs/cgroup/memory/outer/us/belljar/i/s/"
	number := func(name string) int64 {
		n, err := strconv.ParseInt(f.get(dir+name), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	plain := g.kernel.write
	g.kernel.write = func(name, value string) error {
		n, _ := strconv.ParseInt(value, 10, 64)
		switch filepath.Base(name) {
		case "memory.limit_in_bytes":
			if n > number("memory.memsw.limit_in_bytes") {
				return unix.EINVAL
			}
		case "memory.memsw.limit_in_bytes":
			if n < number("memory.limit_in_bytes") {
				return unix.EINVAL
			}
		}
		return plain(name, value)
	}
	now, little := allLimits, otherLimits
	little.Memory = 14 << 20 // less than sockets may buffer
	for _, next := range []Limits{otherLimits, allLimits, little, little, otherLimits} {
		if err := g.Change(now, next); err != nil {
			t.Fatal(err)
		}
		now = next
		for _, name := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"} {
			if got := number(name); got != pages(now.Memory) {
				t.Errorf("%s is %d, want %d", name, got, pages(now.Memory))
			}
		}
		if got := number("memory.kmem.tcp.limit_in_bytes"); got != min(pages(now.Memory), socketBytes) {
			t.Errorf("%d bytes may wait in sockets, with %d of memory", got, now.Memory)
		}
		if got := f.get("/sys/fs/cgroup/pids/belljar/i/s/pids.max"); got != strconv.FormatInt(now.Pids, 10) {
			t.Errorf("pids.max is %s, want %d", got, now.Pids)
		}
		if got := f.get("/sys/fs/cgroup/cpu,cpuacct/belljar/i/s/cpu.cfs_quota_us"); got != strconv.Itoa(int(now.CPU*period)) {
			t.Errorf("cpu.cfs_quota_us is %s, want %v cores", got, now.CPU)
		}
	}
}

func TestLiftCPU(t *testing.T) {
	for name, c := range map[string]struct {
		tree       func(*testing.T) *fake
		file, want string
	}{
		"v1": {wholeV1, "/sys/fs/cgroup/cpu,cpuacct/belljar/i/s/cpu.cfs_quota_us", "-1"},
		"v2": {wholeV2, "/sys/fs/cgroup/belljar/i/s/cpu.max", "max"},
	} {
		f := c.tree(t)
		g := fakeCreate(t, f.discover(), Spec{Installation: "i", ID: "s", Limits: allLimits})
		if err := g.LiftCPU(); err != nil || f.get(c.file) != c.want {
			t.Errorf("%s: %q, %v", name, f.get(c.file), err)
		}
	}
}

// If a warden sets its own limit between our write and our read, the change still succeeds. If the kernel never accepts the
// limit, it fails.
func TestLimitMemoryBesideAWarden(t *testing.T) {
	for _, version := range []struct {
		name string
		tree func(*testing.T) *fake
		file string
	}{
		{"v1", wholeV1, "/sys/fs/cgroup/memory/outer/us/belljar/i/s/memory.limit_in_bytes"},
		{"v2", wholeV2, "/sys/fs/cgroup/belljar/i/s/memory.max"},
	} {
		t.Run(version.name, func(t *testing.T) {
			f := version.tree(t)
			g := fakeCreate(t, f.discover(), Spec{Installation: "i", ID: "s", Limits: allLimits})
			plain, moves := g.kernel.write, 1
			g.kernel.write = func(name, value string) error {
				err := plain(name, value)
				if filepath.Base(name) == filepath.Base(version.file) && moves > 0 {
					moves--
					f.put(version.file, "4096")
				}
				return err
			}
			if err := g.LimitMemory(otherLimits.Memory); err != nil {
				t.Fatal(err)
			}
			if got, want := f.get(version.file), strconv.FormatInt(otherLimits.Memory, 10); got != want {
				t.Errorf("the limit is %s, want %s", got, want)
			}
			moves = 1000
			if err := g.LimitMemory(allLimits.Memory); err == nil {
				t.Error("a limit that is never there is taken for set")
			}
		})
	}
}

func TestChangeV1WithoutSwapAccounting(t *testing.T) {
	f := wholeV1(t)
	if err := os.Remove(f.path("/sys/fs/cgroup/memory/outer/us/memory.memsw.limit_in_bytes")); err != nil {
		t.Fatal(err)
	}
	g := fakeCreate(t, f.discover(), Spec{Installation: "i", ID: "s", Limits: allLimits})
	if err := g.Change(allLimits, otherLimits); err != nil {
		t.Fatal(err)
	}
	if got := f.get("/sys/fs/cgroup/memory/outer/us/belljar/i/s/memory.limit_in_bytes"); got != "134217728" {
		t.Errorf("memory.limit_in_bytes is %s", got)
	}
}

// A tighter outer limit stays in force; our own limit must not stay tighter than the outer one.
func TestChangeV1CPUUnderATighterOuterLimit(t *testing.T) {
	f := wholeV1(t)
	f.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000")
	f.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000")
	g := fakeCreate(t, f.discover(), Spec{Installation: "i", ID: "s", Limits: allLimits})
	if err := g.Change(allLimits, otherLimits); err != nil {
		t.Fatal(err)
	}
	if got := f.get("/sys/fs/cgroup/cpu,cpuacct/belljar/i/s/cpu.cfs_quota_us"); got != "-1" {
		t.Errorf("cpu.cfs_quota_us is %s", got)
	}
}

func TestChangeThatIsRefused(t *testing.T) {
	for file, limit := range map[string]string{"memory.max": Memory, "cpu.max": CPU, "pids.max": Pids} {
		f := wholeV2(t)
		g := fakeCreate(t, f.discover(), Spec{Installation: "i", ID: "s", Limits: allLimits})
		f.refuse["/sys/fs/cgroup/belljar/i/s/"+file] = unix.EBUSY
		var refused *LimitError
		if err := g.Change(allLimits, otherLimits); !errors.As(err, &refused) || refused.Limit != limit || !errors.Is(err, unix.EBUSY) {
			t.Errorf("%s: %v", file, err)
		}
	}
	f := wholeV2(t)
	g := fakeCreate(t, f.discover(), Spec{Installation: "i", ID: "s", Limits: allLimits})
	for _, c := range [][2]Limits{{allLimits, {}}, {{}, allLimits}} {
		if err := g.Change(c[0], c[1]); err == nil || !strings.Contains(err.Error(), "cannot be") {
			t.Errorf("a limit taken away or begun: %v", err)
		}
	}
}

// The kernel enforces the new limit.
func TestRealChange(t *testing.T) {
	h := realHost(t)
	small := Limits{Memory: 32 << 20, Pids: 20, CPU: 1}
	large := Limits{Memory: 256 << 20, Pids: 30, CPU: 0.5}
	g := create(t, h, Spec{Limits: small})
	if err := g.Change(small, large); err != nil {
		t.Fatal(err)
	}
	if out, err := command(t, g, "allocate", 100).Output(); err != nil {
		t.Errorf("100 MiB of 256: %v, %s", err, out)
	}
	if err := g.Change(large, small); err != nil {
		t.Fatal(err)
	}
	if err := command(t, g, "allocate", 100).Run(); err == nil {
		t.Error("100 MiB of 32 were to be had")
	}
}
