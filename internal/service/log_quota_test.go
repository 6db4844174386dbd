//go:build linux

package service_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// logs returns the size of a user's logs, from the user's view.
func (b *bench) logs(user string) int64 {
	b.t.Helper()
	me, err := b.service.As(belljar.Caller{ID: user}).Node().Me(b.context())
	if err != nil {
		b.t.Fatal(err)
	}
	return me.Used.LogBytes
}

// onRecord returns the store's count of a user's log bytes, and the real size of the logs of the user's runs.
func onRecord(t *testing.T, o service.Options, user string) (counted, there int64) {
	t.Helper()
	usage, err := o.Store.Users().Usage(t.Context(), user, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := o.Store.Runs().List(t.Context(), belljar.RunQuery{UserID: user, Limit: belljar.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		row, err := o.Store.Runs().Get(t.Context(), row.ID)
		if err != nil {
			t.Fatal(err)
		}
		if row.Log != nil {
			there += int64(len(row.Log))
		} else if log, err := o.Logs.Open(row.ID); err == nil {
			there += log.Size()
		}
	}
	return usage.LogBytes, there
}

// fullLogs checks that a run is refused because the quota for logs is used up.
func fullLogs(t *testing.T, err error) {
	t.Helper()
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeQuotaExceeded || e.Details["quota"] != "log_mb" || e.Details["limit"] != 1 ||
		e.Details["used"].(float64) < 1 || !strings.Contains(e.Message, "of 1 MiB") || !strings.Contains(e.Hint, "24 hours") {
		t.Errorf("%+v", err)
	}
}

// The output of a user whose quota for logs is used up is dropped, and the user cannot start runs until a sweep. Other users can.
func TestLogQuota(t *testing.T) {
	clock := newHourglass()
	var o service.Options
	b := newBench(t, func(o *service.Options) { o.Quota.LogMB, o.Clock = 1, clock }, parts(&o))
	first := b.run(shell("head -c 700000 /dev/zero"))
	if len(first.stdout) != 700_000 || first.Truncated {
		t.Errorf("the first printed %d bytes, truncated %t", len(first.stdout), first.Truncated)
	}
	clock.pass(time.Hour)
	second := b.run(shell("head -c 700000 /dev/zero; exit 3"))
	second.want(t, belljar.PhaseFailed, 3, belljar.ReasonNonZeroExit)
	if n := len(second.stdout); n < 340_000 || n > 350_000 || !second.Truncated || !strings.Contains(strings.Join(second.Warnings, "\n"), "quota of log bytes") {
		t.Errorf("the second printed %d bytes, truncated %t, warnings %q", n, second.Truncated, second.Warnings)
	}
	if mark := second.frames[len(second.frames)-2]; mark.Type != belljar.FrameTruncated || mark.Reason != "log_quota" {
		t.Errorf("%+v", mark)
	}
	_, err := b.Start(t.Context(), shell("true"))
	fullLogs(t, err)
	// The first log is an hour old, so it is swept after 23 more hours, or one sweep later.
	var e *belljar.Error
	errors.As(err, &e)
	if wait, _ := e.Details["retry_after_sec"].(int); wait < 23*3600-60 || wait > 23*3600+15*60+60 {
		t.Errorf("retry after %d s", wait)
	}
	if _, err = b.Start(t.Context(), in(b.open(), "true")); err == nil {
		t.Error("a run in a session is not refused")
	}
	counted, there := onRecord(t, o, "local")
	if counted != there || b.logs("local") != counted || counted < 1<<20 || counted > 1<<20+1000 {
		t.Errorf("%d bytes counted, %d in /me, %d are there", counted, b.logs("local"), there)
	}
	run, err := b.as("ann").Start(t.Context(), shell("true"))
	if err != nil {
		t.Fatalf("another user: %v", err)
	}
	b.follow(run.ID)

	clock.pass(23*time.Hour + time.Minute) // the first log is a day old
	b.sweep()
	if left := b.logs("local"); left < 340_000 || left > 360_000 {
		t.Errorf("%d bytes when the first is swept", left)
	}
	b.run(shell("echo x")).want(t, belljar.PhaseCompleted, 0, "")
}

// Concurrent runs do not use the same space twice, whether their logs are files or in their rows.
func TestLogQuotaAtOnce(t *testing.T) {
	var o service.Options
	b := newBench(t, func(o *service.Options) { o.Quota.LogMB = 1 }, parts(&o))
	s := b.open()
	var wg sync.WaitGroup
	var printed atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			req := shell("head -c 300000 /dev/zero")
			if i%2 == 0 {
				req = in(s, "head -c 300000 /dev/zero")
			}
			run, err := b.Start(t.Context(), req)
			if belljar.CodeOf(err) == belljar.CodeQuotaExceeded {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			printed.Add(int64(len(b.follow(run.ID).stdout)))
		})
	}
	wg.Wait()
	counted, there := onRecord(t, o, "local")
	if counted != there || counted < 1<<20 || counted > 1<<20+8000 || printed.Load() > counted {
		t.Errorf("%d bytes counted, %d are there, %d printed", counted, there, printed.Load())
	}
}

// Short logs count, too: a log in its row uses the size of its row.
func TestLogQuotaOfShortRuns(t *testing.T) {
	var o service.Options
	b := newBench(t, parts(&o))
	s, runs := b.open(), b.service.As(service.Local()).Runs()
	for range 5 {
		if _, _, err := belljar.Finish(b.context(), runs, in(s, "echo some words"), patience); err != nil {
			t.Fatal(err)
		}
	}
	if counted, there := onRecord(t, o, "local"); counted != there || counted < 5*16 || b.logs("local") != counted {
		t.Errorf("%d bytes counted, %d are there", counted, there)
	}
}

// A frame counts more than its bytes: output in single bytes fills the quota with fewer bytes.
func TestLogQuotaCountsFrames(t *testing.T) {
	var o service.Options
	b := newBench(t, func(o *service.Options) { o.Quota.LogMB = 1 }, parts(&o))
	silent := newSilence()
	req := shell("i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); done; read x")
	req.Input = silent
	run := b.start(req)
	b.waitFor(run.ID, "299\n")
	log, err := o.Logs.Open(run.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.eventually("what is under way counts", func() bool { return b.logs("local") == log.Size() })
	silent.Close()
	r := b.follow(run.ID)
	if counted, there := onRecord(t, o, "local"); counted != there || counted <= int64(len(r.stdout)) {
		t.Errorf("%d bytes counted, %d are there, %d printed", counted, there, len(r.stdout))
	}
}

// The record of a run counts as long as its log, so that runs that print nothing fill the quota, too. log_bytes shows the logs alone.
func TestLogQuotaCountsRecords(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Quota.LogMB, o.Clock = 1, clock })
	req := shell("true")
	req.Command = append(req.Command, slices.Repeat([]string{strings.Repeat("x", 1000)}, 15)...)
	runs := 0
	var err error
	for ; runs < 100 && err == nil; runs++ {
		var run belljar.Run
		if run, err = b.Start(t.Context(), req); err == nil {
			b.follow(run.ID)
		}
	}
	fullLogs(t, err)
	if logs := b.logs("local"); runs < 60 || runs > 70 || logs > 100_000 {
		t.Errorf("run %d is refused, %d bytes of logs", runs, logs)
	}
	clock.pass(25 * time.Hour)
	b.sweep()
	b.run(req).want(t, belljar.PhaseCompleted, 0, "")
}

// The logs of a killed process count once.
func TestLogQuotaAfterAKill(t *testing.T) {
	var o service.Options
	b := newBench(t, func(o *service.Options) { o.Quota.LogMB = 1 }, parts(&o))
	row := leftRow(belljar.PhaseRunning, nil)
	leave(t, o, row, append(phases(belljar.PhaseStarting, belljar.PhaseRunning),
		belljar.Frame{Type: belljar.FrameStdout, Output: make([]byte, 600_000)}, belljar.Frame{Type: belljar.FrameStdout, Output: make([]byte, 600_000)}))
	b.run(shell("echo x")) // the account is open before the record is repaired
	b.recover()
	if counted, there := onRecord(t, o, "local"); counted != there || counted < 1_200_000 || b.logs("local") != counted {
		t.Errorf("%d bytes counted, %d in /me, %d are there", counted, b.logs("local"), there)
	}
	_, err := b.Start(t.Context(), shell("true"))
	fullLogs(t, err)
}

// A stored quota overrides the default, and no quota means no limit.
func TestLogQuotaOfAUser(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Quota.LogMB = 1 })
	admin := b.service.As(service.Local()).Admin()
	if err := admin.SetQuota(t.Context(), "local", &belljar.Quota{}); err != nil {
		t.Fatal(err)
	}
	if r := b.run(shell("head -c 1500000 /dev/zero")); len(r.stdout) != 1_500_000 {
		t.Errorf("%d bytes", len(r.stdout))
	}
	b.run(shell("true"))
	if err := admin.SetQuota(t.Context(), "local", &belljar.Quota{LogMB: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Start(t.Context(), shell("true"))
	fullLogs(t, err)
	var e *belljar.Error
	if err := admin.SetQuota(t.Context(), "local", &belljar.Quota{LogMB: -1}); !errors.As(err, &e) || e.Details["field"] != "log_mb" {
		t.Errorf("%v", err)
	}
}

// Below the watermark, users that store most are refused first. Below half of it, all users are. Work without a user is refused from the watermark on.
func TestWatermarkIsFair(t *testing.T) {
	var free atomic.Uint64
	var o service.Options
	b := newBench(t, func(o *service.Options) {
		o.MinFreeBytes = 64 << 20
		o.FreeBytes = func() (uint64, error) { return free.Load(), nil }
	}, parts(&o))
	keep := func(user string, logs, artifacts int64) {
		t.Helper()
		row := leftRow(belljar.PhaseRunning, nil)
		row.UserID = user
		leave(t, o, row, nil)
		now := time.Now()
		row.Phase, row.FinishedAt, row.LogBytes, row.ResourceUsage = belljar.PhaseCompleted, &now, logs, &belljar.ResourceUsage{ArtifactBytes: artifacts}
		if err := o.Store.Runs().Finish(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, user := range []string{"none", "little", "logs", "files"} {
			err := b.service.Room(t.Context(), user)
			var e *belljar.Error
			if errors.As(err, &e) && e.Code == belljar.CodeDiskFull && e.Hint != "" && e.Details["free_bytes"] == free.Load() {
				got = append(got, user)
			} else if err != nil {
				t.Errorf("%s: %s: %v", when, user, err)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v are refused, want %v", when, got, want)
		}
		if _, err := b.service.As(service.Local()).Images().Import(t.Context(), "x", strings.NewReader(""), nil); (belljar.CodeOf(err) == belljar.CodeDiskFull) != (len(want) > 0) {
			t.Errorf("%s: an image: %v", when, err)
		}
	}
	free.Store(64 << 20)
	refused("at the watermark")
	free.Store(63 << 20)
	refused("when nothing is kept", "none", "little", "logs", "files")
	keep("little", 10, 10)
	refused("when one keeps all", "little")
	keep("logs", 30_000, 0)
	keep("files", 10_000, 20_000)
	refused("below the watermark", "logs", "files")
	free.Store(32 << 20)
	refused("at half of it", "logs", "files")
	_, err := b.as("logs").Start(t.Context(), shell("true"))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeDiskFull {
		t.Fatalf("%+v", err)
	}
	kept, share := e.Details["kept_bytes"].(int64), e.Details["share_bytes"].(int64)
	if kept < 30_000 || kept > 32_000 || share < 20_000 || share > 22_000 { // with the records, of some hundred bytes each
		t.Errorf("%d bytes kept, %d a user", kept, share)
	}
	run, err := b.as("little").Start(t.Context(), shell("true"))
	if err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID)
	if _, err := b.sessions("files").Create(t.Context(), spec()); belljar.CodeOf(err) != belljar.CodeDiskFull {
		t.Errorf("a session: %v", err)
	}
	free.Store(32<<20 - 1)
	refused("below half of it", "none", "little", "logs", "files")

	// The output of a live run already counts.
	free.Store(64 << 20)
	silent := newSilence()
	req := shell("head -c 100000 /dev/zero; echo over; read x")
	req.Input = silent
	busy, err := b.as("none").Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	b.waitFor(busy.ID, "over\n")
	free.Store(63 << 20)
	refused("while one prints", "none")
	silent.Close()
	b.follow(busy.ID)
}

// Records count when the disk is nearly full: the user who floods them is refused, and not the one who keeps a log, also after the logs are swept.
func TestWatermarkCountsRecords(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for what, flood := range map[string]func(*bench) error{
		"runs": func(b *bench) error {
			req := shell("true")
			req.Command = append(req.Command, slices.Repeat([]string{long}, 15)...)
			run, err := b.as("flood").Start(t.Context(), req)
			if err == nil {
				b.follow(run.ID)
			}
			return err
		},
		"sessions": func(b *bench) error {
			req := spec()
			req.Labels = map[string]string{}
			for i := range 15 {
				req.Labels[fmt.Sprint(i)] = long
			}
			x, err := b.sessions("flood").Create(t.Context(), req)
			if err == nil {
				err = b.sessions("flood").Delete(t.Context(), x.ID)
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) { watermarkCounts(t, flood) })
	}
}

func watermarkCounts(t *testing.T, flood func(*bench) error) {
	clock := newHourglass()
	var free atomic.Uint64
	free.Store(64 << 20)
	b := newBench(t, func(o *service.Options) {
		o.Clock, o.MinFreeBytes = clock, 64<<20
		o.FreeBytes = func() (uint64, error) { return free.Load(), nil }
	})
	for range 10 {
		if err := flood(b); err != nil {
			t.Fatal(err)
		}
	}
	run, err := b.as("log").Start(t.Context(), shell("head -c 50000 /dev/zero"))
	if err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID)
	refused := func(when string) {
		t.Helper()
		free.Store(63 << 20)
		var e *belljar.Error
		if err := b.service.Room(t.Context(), "flood"); !errors.As(err, &e) || e.Code != belljar.CodeDiskFull || e.Details["kept_bytes"].(int64) < 150_000 {
			t.Errorf("%s: the user with the records: %v", when, err)
		}
		if err := b.service.Room(t.Context(), "log"); err != nil {
			t.Errorf("%s: the user with a log: %v", when, err)
		}
		free.Store(64 << 20)
	}
	refused("at first")
	clock.pass(25 * time.Hour)
	b.sweep()
	if left := b.logs("log"); left != 0 {
		t.Errorf("%d bytes of logs after the sweep", left)
	}
	refused("after the sweep")
}
