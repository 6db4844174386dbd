//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// All kinds of groups of an installation have one bound on their processes. It is lowered while they have more; only that of
// commands, which they share, is not lowered under others.
func TestBoundOfProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		f   *fake
		dir string
	}{
		"v2": {wholeV2(t), "/sys/fs/cgroup/belljar/i"},
		"v1": {wholeV1(t), "/sys/fs/cgroup/pids/belljar/i"},
	} {
		t.Run(name, func(t *testing.T) {
			for i, step := range []struct {
				bound Bound
				want  string
			}{
				{Bound{}, "max"}, {Bound{Pids: 100}, "100"}, {Bound{Pids: 50}, "50"}, {Bound{Pids: 40, Shared: true}, "50"},
				{Bound{Pids: 60, Shared: true}, "60"}, {Bound{}, "60"},
			} {
				h := c.f.discover()
				h.Bind(step.bound)
				fakeCreate(t, h, Spec{Installation: "i/kind" + strconv.Itoa(i), ID: "s", Limits: allLimits})
				if got := c.f.get(c.dir + "/pids.max"); got != step.want {
					t.Errorf("after %+v: %s", step.bound, got)
				}
				c.f.put(c.dir+"/pids.current", "70")
				used, bound, ok := h.Pids("i/native")
				if ok != (step.want != "max") || ok && (used != 70 || strconv.FormatInt(bound, 10) != step.want) {
					t.Errorf("after %+v: %d of %d, %v", step.bound, used, bound, ok)
				}
			}
			if _, _, ok := c.f.discover().Pids("other"); ok {
				t.Error("an installation without groups has a bound")
			}
		})
	}
	f := wholeV2(t)
	f.refuse["/sys/fs/cgroup/belljar/i/pids.max"] = unix.EACCES
	h := f.discover()
	h.Bind(Bound{Pids: 9})
	var refused *LimitError
	if _, err := h.Create(Spec{Installation: "i/native", ID: "s"}); !errors.As(err, &refused) || refused.Limit != Pids {
		t.Errorf("refused: %v", err)
	}
}

// The lowest number limits how many processes there can be.
func TestPidsCeiling(t *testing.T) {
	own := int64(1 << 30)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err == nil && os.Geteuid() != 0 {
		own = int64(min(limit.Cur, 1<<30))
	}
	f := wholeV2(t)
	for _, c := range []struct {
		file, text string
		want       int64
	}{
		{"", "", 0}, {"/proc/sys/kernel/pid_max", "4000", 4000}, {"/proc/sys/kernel/threads-max", "3000", 3000},
		{"/sys/fs/cgroup/pids.max", "max", 3000}, {"/sys/fs/cgroup/pids.max", "2000", 2000}, {"/proc/sys/kernel/pid_max", "1000", 1000},
	} {
		if c.file != "" {
			f.put(c.file, c.text+"\n")
		}
		want := min(c.want, own)
		if c.want == 0 && own < 1<<30 {
			want = own
		}
		if got := f.discover().PidsCeiling(); got != want {
			t.Errorf("with %s %s: %d, want %d", c.file, c.text, got, want)
		}
	}
}

// The kernel limits two groups together to their installation's bound, although each may have as many.
func TestRealBoundOfProcesses(t *testing.T) {
	const bound = 60
	h := realHost(t)
	h.Bind(Bound{Pids: bound})
	first, second := create(t, h, Spec{ID: "first", Limits: Limits{Pids: bound}}), create(t, h, Spec{ID: "second", Limits: Limits{Pids: bound}})
	holder := command(t, first, "forks", bound/2)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	held := 0
	if _, err := fmt.Fscan(stdout, &held); err != nil || held != bound/2 {
		t.Errorf("half of the bound: %d started, %v", held, err)
	}
	out, err := command(t, second, "fork", bound).Output()
	n, convErr := strconv.Atoi(strings.TrimSpace(string(out)))
	if err := errors.Join(err, convErr); err != nil || n == 0 || n >= bound-held {
		t.Errorf("next to %d processes of %d %d started, %v", held, bound, n, err)
	}
	if used, most, ok := h.Pids(installation(t)); !ok || most != bound || used <= int64(held) {
		t.Errorf("%d of %d, %v", used, most, ok)
	}
	if u := second.Usage(); u.PeakPids != nil && *u.PeakPids >= bound {
		t.Errorf("%d processes in one group", *u.PeakPids)
	}
	stdin.Close()
	if err := holder.Wait(); err != nil {
		t.Error(err)
	}
}
