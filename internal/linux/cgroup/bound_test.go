//go:build linux

package cgroup

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

const mega = 1 << 20

// boundTo makes a group of an installation in a process that bounds it, and returns the resulting bound.
func boundTo(t *testing.T, f *fake, b Bound, installation, id string) int64 {
	t.Helper()
	h := f.discover()
	h.Bind(b)
	fakeCreate(t, h, Spec{Installation: installation, ID: id, Limits: allLimits})
	whole, ok := h.Installation(installation)
	if !ok {
		t.Fatal("no memory can be limited")
	}
	return whole.Bound()
}

// All kinds of groups of an installation have one bound, and the host's programs have precedence over them.
func TestBound(t *testing.T) {
	const v1, v2 = "/sys/fs/cgroup/memory/outer/us/belljar", "/sys/fs/cgroup/belljar"
	for name, c := range map[string]struct {
		f     *fake
		files map[string]string
	}{
		"v2": {wholeV2(t), map[string]string{v2 + "/i/memory.max": "1048576", v2 + "/i/memory.swap.max": "0", v2 + "/cpu.weight": weightV2,
			v2 + "/i/native/s/memory.max": "67112960"}},
		"v1": {wholeV1(t), map[string]string{v1 + "/i/memory.limit_in_bytes": "1048576", v1 + "/i/memory.memsw.limit_in_bytes": "1048576",
			"/sys/fs/cgroup/cpu,cpuacct/belljar/cpu.shares": sharesV1}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "v1" {
				for _, dir := range []string{"", "/i", "/i/native", "/i/gvisor"} {
					c.f.put(v1+dir+"/memory.memsw.limit_in_bytes", "9223372036854771712")
				}
				c.f.put(v1+"/i/memory.limit_in_bytes", "9223372036854771712")
			}
			for _, kind := range []string{"native", "gvisor"} {
				if got := boundTo(t, c.f, Bound{Memory: mega - 1}, "i/"+kind, "s"); got != mega {
					t.Errorf("%s: the bound is %d", kind, got)
				}
			}
			for file, want := range c.files {
				if got := c.f.get(file); got != want {
					t.Errorf("%s is %q, want %q", file, got, want)
				}
			}
		})
	}
}

// A bound that others share is not lowered, and none is lowered below the memory in use.
func TestBoundIsLowered(t *testing.T) {
	for name, c := range map[string]struct {
		next Bound
		used int64
		want int64
	}{
		"raised":            {Bound{Memory: 200 * mega}, 90 * mega, 200 * mega},
		"raised, shared":    {Bound{Memory: 200 * mega, Shared: true}, 90 * mega, 200 * mega},
		"lowered":           {Bound{Memory: 50 * mega}, 40 * mega, 50 * mega},
		"lowered, shared":   {Bound{Memory: 50 * mega, Shared: true}, 40 * mega, 100 * mega},
		"lowered below use": {Bound{Memory: 50 * mega}, 60 * mega, 100 * mega},
		"none":              {Bound{}, 0, 100 * mega},
	} {
		t.Run(name, func(t *testing.T) {
			f := wholeV2(t)
			boundTo(t, f, Bound{Memory: 100 * mega}, "i/native", "s")
			f.put("/sys/fs/cgroup/belljar/i/memory.current", strconv.FormatInt(c.used, 10))
			if got := boundTo(t, f, c.next, "i/gvisor", "other"); got != c.want {
				t.Errorf("the bound is %d, want %d", got, c.want)
			}
		})
	}
}

// The socket limit of one group leaves room for the others' sockets, and never exceeds the amount that puts the host's sockets
// under pressure.
func TestBoundOfSockets(t *testing.T) {
	for bound, want := range map[int64]string{100 * mega: "67108864", 20 << 30: "1073741824"} {
		f := wholeV1(t)
		boundTo(t, f, Bound{Memory: bound}, "i/native", "s")
		const dir = "/sys/fs/cgroup/memory/outer/us/belljar/i"
		if got := f.get(dir + "/memory.kmem.tcp.limit_in_bytes"); got != want {
			t.Errorf("of %d bytes, %s may wait in all sockets, want %s", bound, got, want)
		}
		// An earlier version gave the installation the limit of a single group.
		f.put(dir+"/memory.kmem.tcp.limit_in_bytes", "67108864")
		boundTo(t, f, Bound{Memory: bound}, "i/native", "other")
		if got := f.get(dir + "/memory.kmem.tcp.limit_in_bytes"); got != want {
			t.Errorf("of %d bytes, %s may wait in all sockets then", bound, got)
		}
	}
}

// The bound of an installation without groups is set by the process that makes the next one.
func TestBoundOfAnEmptyInstallation(t *testing.T) {
	f := wholeV2(t)
	h := f.discover()
	h.Bind(Bound{Memory: 100 * mega, Shared: true})
	if err := h.Prepare("i/native"); err != nil {
		t.Fatal(err)
	}
	if got := boundTo(t, f, Bound{Memory: 50 * mega, Shared: true}, "i/native", "s"); got != 50*mega {
		t.Errorf("the bound is %d", got)
	}
}

// If v1 refuses a bound below the memory in use, the old bound stays; any other error is returned.
func TestBoundThatIsRefused(t *testing.T) {
	f := wholeV2(t)
	f.refuse["/sys/fs/cgroup/belljar/i/memory.max"] = unix.EBUSY
	if got := boundTo(t, f, Bound{Memory: mega}, "i/native", "s"); got != 0 {
		t.Errorf("the bound is %d", got)
	}
	f.refuse["/sys/fs/cgroup/belljar/other/memory.max"] = unix.EACCES
	h := f.discover()
	h.Bind(Bound{Memory: mega})
	var refused *LimitError
	if _, err := h.Create(Spec{Installation: "other/native", ID: "s"}); !errors.As(err, &refused) {
		t.Errorf("refused: %v", err)
	}
}

// The lowest limit above limits the available memory.
func TestCeiling(t *testing.T) {
	f := wholeV2(t)
	machine := f.discover().Ceiling()
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil || machine != int64(info.Totalram)*int64(info.Unit) {
		t.Errorf("machine: %d of %d, %v", machine, info.Totalram, err)
	}
	f.put("/sys/fs/cgroup/memory.max", strconv.Itoa(3*mega))
	if got := f.discover().Ceiling(); got != 3*mega {
		t.Errorf("with a limit: %d", got)
	}
}

// The page cache of files on a disk does not count as in use.
func TestWholeUsed(t *testing.T) {
	f := wholeV2(t)
	boundTo(t, f, Bound{Memory: 100 * mega}, "i/native", "s")
	f.put("/sys/fs/cgroup/belljar/i/memory.current", strconv.Itoa(50*mega))
	f.put("/sys/fs/cgroup/belljar/i/memory.stat", "anon 1\ninactive_file 3145728\nactive_file 2097152\nshmem 7")
	whole, _ := f.discover().Installation("i/native")
	if used, err := whole.Used(); err != nil || used != 45*mega {
		t.Errorf("used %d, %v", used, err)
	}
	if err := os.RemoveAll(f.path("/sys/fs/cgroup/belljar/i")); err != nil {
		t.Fatal(err)
	}
	if used, err := whole.Used(); err != nil || used != 0 || whole.Bound() != 0 {
		t.Errorf("of none: %d of %d, %v", used, whole.Bound(), err)
	}
}

// value returns a figure, or -1 for nil.
func value(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// The kernel limits two groups together to their installation's bound, and its kills do not count for the groups' own limits.
func TestRealBound(t *testing.T) {
	h := realHost(t)
	h.Bind(Bound{Memory: 96 * mega})
	g := create(t, h, Spec{ID: "within", Limits: Limits{Memory: 192 * mega}})
	if out, err := command(t, g, "allocate", 30).Output(); err != nil {
		t.Errorf("30 MiB of 96: %v, %s", err, out)
	}
	if err := command(t, g, "allocate", 140).Run(); err == nil {
		t.Error("140 MiB of 96 were to be had")
	}
	u := g.Usage()
	if u.OOMKills == nil || *u.OOMKills == 0 || u.LimitHits == nil || *u.LimitHits != 0 {
		t.Errorf("killed by the installation's bound: %d kills, %d hits of the own limit", value(u.OOMKills), value(u.LimitHits))
	}
	own := create(t, h, Spec{ID: "own", Limits: Limits{Memory: 48 * mega}})
	if err := command(t, own, "allocate", 80).Run(); err == nil {
		t.Error("80 MiB of 48 were to be had")
	}
	if u := own.Usage(); u.OOMKills == nil || *u.OOMKills == 0 || u.LimitHits == nil || *u.LimitHits == 0 {
		t.Errorf("killed by the own limit: %d kills, %d hits", value(u.OOMKills), value(u.LimitHits))
	}
}
