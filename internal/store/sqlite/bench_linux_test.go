package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/sqlite"
)

// day is the number of runs on a busy day (issue 3).
const day = 100_000

// benchRun returns the nth run: seven users, one of them with half of all runs, nine of ten completed, realistic
// messages.
func benchRun(n int) store.Run {
	user := fmt.Sprint("user", n%14)
	if n%2 == 0 {
		user = "busy"
	}
	r := store.Run{Run: belljar.Run{
		ID: belljar.NewID(), UserID: user, Phase: belljar.PhaseQueued, SpecVersion: "1.0", Runtime: []string{"native", "native", "docker"}[n%3],
		RuntimeVersion: "1.2.3", BaseImage: []string{"host", "python:3.11-slim", "node:20-alpine"}[n%3],
		ImageDigest: "sha256:" + strings.Repeat(fmt.Sprint(n%3), 64), PolicyHash: strings.Repeat("a", 64),
		Command: []string{"python3", "-c", "print('hello, world')"}, Labels: map[string]string{"project": "bench"},
		CreatedAt:      time.Unix(1_700_000_000, 0).Add(time.Duration(n) * time.Second),
		LimitsEnforced: map[string]string{"cpu": "cgroup2", "memory": "cgroup2", "pids": "cgroup2", "wall": "agent"},
	}}
	if n%100 == 0 {
		r.SessionID = fmt.Sprint("session", n%1000)
	}
	return r
}

func benchEnded(r store.Run, n int) store.Run {
	r.StartedAt, r.FinishedAt = new(r.CreatedAt.Add(10*time.Millisecond)), new(r.CreatedAt.Add(time.Second))
	r.Phase, r.ExitCode = belljar.PhaseCompleted, new(0)
	switch n % 10 {
	case 3:
		r.Phase, r.ExitCode, r.ReasonCode, r.Message = belljar.PhaseFailed, new(1), belljar.ReasonNonZeroExit, fmt.Sprintf("the command ended with status 1 in step %d", n)
	case 7:
		r.Phase, r.ReasonCode, r.Message = belljar.PhaseKilled, belljar.ReasonCanceledByUser, "canceled_by_user"
	}
	limits := belljar.DefaultLimits()
	r.ResourceUsage = &belljar.ResourceUsage{CPUTimeSec: new(0.12), WallTimeSec: 1, PeakRSSMB: new(42.5), Pids: new(3), LogBytes: 128, ArtifactBytes: 2048,
		Limits: &limits, Sources: map[string]string{"cpu_time_sec": "cgroup2", "peak_rss_mb": "cgroup2"}}
	r.SetArtifacts([]belljar.Artifact{{Path: "results.json", Size: 2048, Digest: "sha256:" + strings.Repeat("d", 64)}})
	r.LastSeq = 12
	return r
}

// filled returns a store with a day's runs and the id of one of them.
func filled(b *testing.B) (*sqlite.Store, string) {
	b.Helper()
	s := open(b, filepath.Join(b.TempDir(), "store.db"))
	var next atomic.Int64
	var group sync.WaitGroup
	ids := make([]string, day)
	for range 64 {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < day; n = int(next.Add(1)) - 1 {
				r := benchRun(n)
				ids[n] = r.ID
				if _, err := s.Runs().Insert(b.Context(), r, nil); err != nil {
					b.Error(err)
					return
				}
				if n < day-20 {
					if err := s.Runs().Finish(b.Context(), benchEnded(r, n)); err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	group.Wait()
	return s, ids[day/3]
}

// BenchmarkDay reads from a store with 100,000 runs. Each read must take less than 20 ms.
func BenchmarkDay(b *testing.B) {
	s, id := filled(b)
	b.Run("Get", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Runs().Get(b.Context(), id); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Unfinished", func(b *testing.B) {
		for b.Loop() {
			if open, err := s.Runs().Unfinished(b.Context()); err != nil || len(open) != 20 {
				b.Fatal(len(open), err)
			}
		}
	})
	b.Run("Sweepable", func(b *testing.B) {
		for b.Loop() {
			if runs, err := s.Runs().Sweepable(b.Context(), time.Now(), true, 100); err != nil || len(runs) != 100 {
				b.Fatal(len(runs), err)
			}
		}
	})
	from := time.Unix(1_700_000_000, 0)
	for _, each := range []struct {
		name string
		q    belljar.RunQuery
	}{
		{"all", belljar.RunQuery{}},
		{"all,oldest", belljar.RunQuery{Sort: "created_at:asc"}},
		{"all,limit200", belljar.RunQuery{Limit: 200}},
		{"all,offset99900", belljar.RunQuery{Offset: 99_900}},
		{"all,started", belljar.RunQuery{Sort: "started_at:desc"}},
		{"all,finished", belljar.RunQuery{Sort: "finished_at:desc"}},
		{"user", belljar.RunQuery{UserID: "user5"}},
		{"busy", belljar.RunQuery{UserID: "busy"}},
		{"busy,started", belljar.RunQuery{UserID: "busy", Sort: "started_at:desc"}},
		{"busy,finished", belljar.RunQuery{UserID: "busy", Sort: "finished_at:asc"}},
		{"busy,completed", belljar.RunQuery{UserID: "busy", Phase: belljar.PhaseCompleted}},
		{"busy,queued", belljar.RunQuery{UserID: "busy", Phase: belljar.PhaseQueued}},
		{"user,failed,finished", belljar.RunQuery{UserID: "user3", Phase: belljar.PhaseFailed, Sort: "finished_at:desc"}},
		{"completed", belljar.RunQuery{Phase: belljar.PhaseCompleted}},
		{"completed,finished", belljar.RunQuery{Phase: belljar.PhaseCompleted, Sort: "finished_at:desc"}},
		{"queued", belljar.RunQuery{Phase: belljar.PhaseQueued}},
		{"runtime", belljar.RunQuery{Runtime: "docker"}},
		{"digest", belljar.RunQuery{ImageDigest: "sha256:" + strings.Repeat("1", 64)}},
		{"image,completed", belljar.RunQuery{BaseImage: "host", Phase: belljar.PhaseCompleted}},
		{"image,running", belljar.RunQuery{BaseImage: "host", Phase: belljar.PhaseRunning}},
		{"session", belljar.RunQuery{SessionID: "session500"}},
		{"started,hour", belljar.RunQuery{StartedFrom: from.Add(time.Hour), StartedTo: from.Add(2 * time.Hour)}},
		{"started,all,user", belljar.RunQuery{StartedFrom: from, UserID: "user5"}},
		{"q,image", belljar.RunQuery{Q: "Python"}},
		{"q,one", belljar.RunQuery{Q: "step 503"}},
		{"q,few", belljar.RunQuery{Q: "in step 4"}},
		{"q,none", belljar.RunQuery{Q: "no such words"}},
		{"q,user", belljar.RunQuery{Q: "canceled", UserID: "user7"}},
		{"q,busy,completed,finished", belljar.RunQuery{Q: "o", UserID: "busy", Phase: belljar.PhaseCompleted, Sort: "finished_at:desc"}},
	} {
		b.Run("List/"+each.name, func(b *testing.B) {
			total, before := 0, cpuTime()
			for b.Loop() {
				var err error
				if _, total, err = s.Runs().List(b.Context(), each.q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(total), "total")
		})
	}
}

// BenchmarkLife measures one run: Insert with a key, two Updates and a durable Finish, from eight goroutines.
func BenchmarkLife(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "store.db"))
			var next atomic.Int64
			var group sync.WaitGroup
			before := cpuTime()
			b.ResetTimer()
			for range workers {
				group.Go(func() {
					for n := int(next.Add(1)); n <= b.N; n = int(next.Add(1)) {
						if err := live(b, s, n); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			const writes = 4
			b.ReportMetric(float64(writes*b.N)/b.Elapsed().Seconds(), "writes/s")
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(writes*b.N), "cpu-µs/write")
		})
	}
}

// BenchmarkAdd measures a short run: Add alone.
func BenchmarkAdd(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "store.db"))
			var next atomic.Int64
			var group sync.WaitGroup
			times := make([]time.Duration, b.N)
			before := cpuTime()
			b.ResetTimer()
			for range workers {
				group.Go(func() {
					for n := int(next.Add(1)); n <= b.N; n = int(next.Add(1)) {
						r := benchEnded(benchRun(n), n)
						r.SessionID, r.Log = fmt.Sprint("session", n%3), make([]byte, 600)
						begin := time.Now()
						if err := s.Runs().Add(b.Context(), r); err != nil {
							b.Error(err)
							return
						}
						times[n-1] = time.Since(begin)
					}
				})
			}
			group.Wait()
			slices.Sort(times)
			b.ReportMetric(float64(times[b.N*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(times[b.N-1].Microseconds()), "max-µs")
			if _, err := s.Runs().Unfinished(b.Context()); err != nil { // include queued writes in the time
				b.Error(err)
			}
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-µs/run")
		})
	}
}

func live(b *testing.B, s *sqlite.Store, n int) error {
	r := benchRun(n)
	r.Spec = &belljar.RunSpec{Command: r.Command, BaseImage: r.BaseImage}
	key := &store.Key{Endpoint: "runs", UserKey: r.UserID, Key: r.ID, Fingerprint: strings.Repeat("f", 64), ObjectID: r.ID, Response: []byte(`{"id":"` + r.ID + `"}`), CreatedAt: r.CreatedAt}
	if _, err := s.Runs().Insert(b.Context(), r, key); err != nil {
		return err
	}
	for _, r.Phase = range []belljar.Phase{belljar.PhaseStarting, belljar.PhaseRunning} {
		if err := s.Runs().Update(b.Context(), r); err != nil {
			return err
		}
	}
	return s.Runs().Finish(b.Context(), benchEnded(r, n))
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOpen measures opening a new and an existing store, which delays the start of the server.
func BenchmarkOpen(b *testing.B) {
	for _, fresh := range []bool{true, false} {
		b.Run(map[bool]string{true: "new", false: "there"}[fresh], func(b *testing.B) {
			dir := b.TempDir()
			n := 0
			for b.Loop() {
				if fresh {
					n++
				}
				if err := open(b, filepath.Join(dir, fmt.Sprint(n))).Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
