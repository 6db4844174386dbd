//go:build linux

package native_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/test/need"
)

// blank makes a sandbox that can be claimed for s.
func blank(t testing.TB, r *native.Runtime, s runtime.Spec) runtime.Sandbox {
	t.Helper()
	b := r.Blank(s)
	b.ID = "pool-" + belljar.NewID()
	box, err := r.Create(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// cgroupFiles reads a sandbox's limits from the cgroups in its record.
func cgroupFiles(t *testing.T, dir, id string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range recordOf(t, dir, id).Cgroup {
		for _, name := range []string{"memory.max", "memory.swap.max", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes",
			"pids.max", "cpu.max", "cpu.cfs_quota_us"} {
			if text, err := os.ReadFile(filepath.Join(f.Path, name)); err == nil {
				found[name] = strings.TrimSpace(string(text))
			}
		}
	}
	return found
}

type record struct {
	Pid    int             `json:"pid"`
	IDBase int             `json:"id_base"`
	Cgroup []cgroup.Folder `json:"cgroup"`
}

func recordOf(t *testing.T, dir, id string) (r record) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, native.Name, "test", id, "record.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A claimed sandbox has the same limits as one that was made for its caller.
func TestClaimedLimits(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	for name, change := range map[string]func(*runtime.Spec){
		"default": func(*runtime.Spec) {},
		"more":    func(s *runtime.Spec) { s.Limits.MemoryMB, s.Limits.CPU = 1024, 2 },
		"less":    func(s *runtime.Spec) { s.Limits.MemoryMB, s.Limits.CPU = 9, 0.25 },
		"least":   func(s *runtime.Spec) { s.Limits.MemoryMB, s.Limits.CPU, s.Limits.Pids = 8, 0.01, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			fresh, claimed := spec(), spec()
			change(&fresh)
			change(&claimed)
			a, err := r.Create(t.Context(), fresh)
			if err != nil {
				t.Fatal(err)
			}
			b, err := r.Claim(t.Context(), blank(t, r, claimed).ID(), claimed)
			if err != nil {
				t.Fatal(err)
			}
			want, got := cgroupFiles(t, dir, fresh.ID), cgroupFiles(t, dir, claimed.ID)
			// The memory limit follows the size of the files, so a small difference is allowed.
			for _, name := range []string{"memory.max", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"} {
				for _, files := range []map[string]string{want, got} {
					if n, err := strconv.ParseInt(files[name], 10, 64); err == nil {
						files[name] = fmt.Sprint(n >> 20)
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("claimed: %v\nmade:    %v", got, want)
			}
			// The limit of the request, in microseconds of each 100 ms.
			cpu := strconv.Itoa(int(fresh.Limits.CPU * 100_000))
			for name, limit := range map[string]string{"cpu.max": cpu + " 100000", "cpu.cfs_quota_us": cpu} {
				if text, ok := want[name]; ok && text != limit {
					t.Errorf("%s is %q, want %q", name, text, limit)
				}
			}
			for _, path := range []string{"/proc/1/limits", "/proc/self/limits", "/proc/self/status", "/proc/self/cgroup"} {
				// Numbers of processes and counters differ between any two sandboxes.
				if got, want := steady(read(t, b, path)), steady(read(t, a, path)); got != want {
					t.Errorf("%s of a claimed one:\n%s\nof one made:\n%s", path, got, want)
				}
			}
			if err := errors.Join(a.Destroy(t.Context()), b.Destroy(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	nothingLeft(t, dir)
}

// steady returns text without the lines that differ between any two sandboxes.
func steady(text string) string {
	var keep []string
	for line := range strings.Lines(text) {
		if name, _, _ := strings.Cut(line, ":"); !slices.Contains([]string{
			"Tgid", "Pid", "PPid", "NSpid", "NStgid", "NSpgid", "NSsid", "VmRSS", "VmHWM", "RssAnon", "RssFile", "VmPTE", "SigQ",
			"voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", "Cpus_allowed", "Cpus_allowed_list", "VmPeak", "VmSize", "VmData",
		}, name) {
			keep = append(keep, line)
		}
	}
	return strings.Join(keep, "")
}

// If a limit cannot be put in force, the sandbox ends.
func TestClaimWithoutALimit(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	box := blank(t, r, spec())
	rec := recordOf(t, dir, box.ID())
	if len(rec.Cgroup) == 0 {
		need.Missing(t, "cgroups")
	}
	// A limit below zero is no limit, and must not replace one.
	s := spec()
	s.Limits.MemoryMB = -1024
	_, err := r.Claim(t.Context(), box.ID(), s)
	if step := (*runtime.StepError)(nil); !errors.As(err, &step) || step.Step != "cgroup" {
		t.Errorf("claim: %v", err)
	}
	if exit, err := box.Wait(t.Context()); err != nil || exit.Reason != runtime.ExitDestroyed {
		t.Errorf("it ended with %+v, %v", exit, err)
	}
	nothingLeft(t, dir)
	noGroupLeft(t, map[string]bool{filepath.Base(rec.Cgroup[0].Path): true})
}

// If another process removes the sandbox by its new name during the claim, the claim fails.
func TestRemoveWhileClaimed(t *testing.T) {
	for _, point := range []string{native.ClaimLimited, native.ClaimLinked, native.ClaimMoved, native.ClaimNamed} {
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			r := open(t, dir)
			s := spec()
			removed := make(chan error, 1)
			begun := make(chan struct{})
			r.Reached(func(at string) {
				if at == point {
					go func() { close(begun); removed <- r.Remove(context.Background(), s.ID) }()
					<-begun
				}
			})
			box, err := r.Claim(t.Context(), blank(t, r, s).ID(), s)
			if err := <-removed; err != nil {
				t.Errorf("remove: %v", err)
			}
			if err == nil {
				// Remove came too late to prevent the claim, and removed the claimed sandbox.
				if exit, err := box.Wait(t.Context()); err != nil || exit.Reason != runtime.ExitDestroyed {
					t.Errorf("it ended with %+v, %v", exit, err)
				}
			}
			nothingLeft(t, dir)
		})
	}
}

// A daemon that is killed during a claim leaves a sandbox that List returns and Remove removes, by either name and in
// either order. While it has both names it is half-made, and swept as such; before and after that it is not.
func TestKilledWhileClaiming(t *testing.T) {
	for _, point := range []string{native.ClaimLimited, native.ClaimLinked, native.ClaimMoved, native.ClaimNamed} {
		for _, order := range []string{"old name first", "new name first", "swept"} {
			t.Run(point+", "+order, func(t *testing.T) {
				dir := t.TempDir()
				from, to := killedClaimant(t, dir, point)
				r := open(t, dir)
				ids, err := r.List(t.Context())
				if err != nil || len(ids) == 0 {
					t.Fatalf("list returns %v, %v", ids, err)
				}
				at := from
				if point == native.ClaimMoved || point == native.ClaimNamed {
					at = to
				}
				rec := recordOf(t, dir, at)
				if unix.Kill(rec.Pid, 0) != nil {
					t.Fatal("it died with its daemon, which proves nothing")
				}
				box, err := r.Attach(t.Context(), at)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := agent.New(box.Dial).Ping(t.Context()); err != nil {
					t.Errorf("its agent: %v", err)
				}
				slices.Sort(ids) // the old name, pool-…, is the last
				switch order {
				case "old name first":
					slices.Reverse(ids)
				case "swept":
					half := point == native.ClaimLinked || point == native.ClaimMoved
					if n, err := r.Sweep(t.Context()); n > 0 != half || err != nil {
						t.Errorf("swept %d, %v", n, err)
					}
				}
				other := open(t, dir) // which has not attached
				for _, id := range ids {
					if err := other.Remove(t.Context(), id); err != nil {
						t.Errorf("remove %s: %v", id, err)
					}
				}
				if _, err := box.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				nothingLeft(t, dir)
				noGroupLeft(t, map[string]bool{from: true, to: true})
			})
		}
	}
}

// killedClaimant makes another process claim a sandbox, and kills it at the given point.
func killedClaimant(t *testing.T, dir, point string) (from, to string) {
	t.Helper()
	from, to = "pool-"+belljar.NewID(), belljar.NewID()
	daemon := exec.Command(os.Args[0])
	daemon.Env = append(os.Environ(), "BELLJAR_TEST_CLAIM="+point, "BELLJAR_TEST_DIR="+dir, "BELLJAR_TEST_FROM="+from, "BELLJAR_TEST_TO="+to)
	daemon.Stderr = os.Stderr
	if err := daemon.Run(); !strings.Contains(fmt.Sprint(err), "killed") {
		t.Fatalf("the daemon ended with %v, want killed", err)
	}
	return from, to
}

// claimAndDie runs in the process that killedClaimant kills.
func claimAndDie(point string) error {
	program, err := os.ReadFile(os.Getenv(agentPath))
	if err != nil {
		return err
	}
	r, err := native.New(native.Options{Agent: bytes.NewReader(program), RunDir: os.Getenv("BELLJAR_TEST_DIR"), Installation: "test"})
	if err != nil {
		return err
	}
	s := spec()
	s.ID, s.Lifetime = os.Getenv("BELLJAR_TEST_TO"), runtime.LifetimeDetached
	b := r.Blank(s)
	b.ID = os.Getenv("BELLJAR_TEST_FROM")
	if _, err := r.Create(context.Background(), b); err != nil {
		return err
	}
	r.Reached(func(at string) {
		if at == point {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	})
	_, err = r.Claim(context.Background(), b.ID, s)
	return fmt.Errorf("it came to its end: %w", err)
}

func BenchmarkClaim(b *testing.B) {
	r := open(b, b.TempDir())
	s := spec()
	for b.Loop() {
		b.StopTimer()
		from := blank(b, r, s).ID()
		s.ID = belljar.NewID()
		b.StartTimer()
		box, err := r.Claim(b.Context(), from, s)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := box.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
