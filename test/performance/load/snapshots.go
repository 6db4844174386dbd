//go:build linux

package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// copies is the number of copies of a session.
const copies = 16

// snapshots measures snapshots, restores and copies of a workspace of 10 MB in 500 files. The reference is a session with an empty
// workspace.
func snapshots(ctx context.Context, s *daemon, out *sheet) error {
	roomy := map[string]any{"workspace_mb": 64}
	id, err := openSession(ctx, s, roomy)
	if err != nil {
		return err
	}
	defer closeSession(ctx, s, id)
	if err := s.ask(ctx, http.MethodPost, prefix+"/runs?wait=30s", map[string]any{
		"spec_version": "1.1", "session_id": id, "command": []string{"sh", "-c", "for i in $(seq 500); do head -c 21000 /dev/urandom >f$i; done"},
	}, nil); err != nil {
		return err
	}
	var made struct {
		ID string `json:"snapshot_id"`
	}
	save := func() error { return s.ask(ctx, http.MethodPost, session(id)+"/snapshots", map[string]any{}, &made) }
	remove := func() error { return s.ask(ctx, http.MethodDelete, prefix+"/snapshots/"+made.ID, nil, nil) }
	times, err := apart(20, save, remove)
	if err == nil {
		err = save()
	}
	if err != nil {
		return err
	}
	out.put("snapshot of 10 MB in 500 files, p50", "80 ms", "%.0f ms", ms(quantile(times, 0.5)))

	var opened []string
	closeAll := func() error {
		for _, id := range opened {
			if err := closeSession(ctx, s, id); err != nil {
				return err
			}
		}
		opened = nil
		return nil
	}
	begin := func(snapshot string) func() error {
		return func() error {
			var made struct {
				ID string `json:"session_id"`
			}
			body := map[string]any{"spec_version": "1.1", "base_image": "host", "resources": roomy}
			if snapshot != "" {
				body["snapshot"] = snapshot
			}
			err := s.ask(ctx, http.MethodPost, prefix+"/sessions", body, &made)
			opened = append(opened, made.ID)
			return err
		}
	}
	empty, err := apart(30, begin(""), closeAll)
	if err != nil {
		return err
	}
	restored, err := apart(30, begin(made.ID), closeAll)
	if err != nil {
		return err
	}
	out.put("a session of it, in comparison with an empty one, p50", "5 ms more", "%.1f and %.1f ms", ms(quantile(restored, 0.5)), ms(quantile(empty, 0.5)))
	forks, err := apart(8, func() error {
		var made struct {
			Sessions []struct {
				ID string `json:"session_id"`
			} `json:"sessions"`
		}
		err := s.ask(ctx, http.MethodPost, session(id)+"/fork", map[string]any{"count": copies}, &made)
		for _, x := range made.Sessions {
			opened = append(opened, x.ID)
		}
		return err
	}, closeAll)
	if err != nil {
		return err
	}
	crowd, err := apart(8, func() error {
		ids, errs := make([]string, copies), make([]error, copies)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() { ids[i], errs[i] = openSession(ctx, s, roomy) })
		}
		all.Wait()
		opened = ids
		return errors.Join(errs...)
	}, closeAll)
	if err != nil {
		return err
	}
	out.put("16 copies of the session, in comparison with 16 empty ones at once, p50", "100 ms", "%.0f and %.0f ms", ms(quantile(forks, 0.5)), ms(quantile(crowd, 0.5)))
	if err := remove(); err != nil {
		return err
	}
	if err := still(ctx, s, out); err != nil {
		return err
	}
	return live(ctx, s, out)
}

// stands prints the longest time, in milliseconds, in which it did not run.
const stands = "import time\nt = time.monotonic(); end = t + 2.5; longest = 0\n" +
	"while t < end:\n  time.sleep(0.001); now = time.monotonic(); longest = max(longest, now - t); t = now\nprint(longest * 1000)"

// still measures how long a snapshot of 100 MB that cannot be compressed stops the programs of its session.
func still(ctx context.Context, s *daemon, out *sheet) error {
	id, err := openSession(ctx, s, map[string]any{"workspace_mb": 256, "memory_mb": 512})
	if err != nil {
		return err
	}
	defer closeSession(ctx, s, id)
	run := func(command ...string) (stdout string, err error) {
		var made struct {
			Stdout string `json:"stdout"`
		}
		err = s.ask(ctx, http.MethodPost, prefix+"/runs?wait=30s", map[string]any{"spec_version": "1.1", "session_id": id, "command": command}, &made)
		return made.Stdout, err
	}
	if _, err := run("sh", "-c", "head -c 100000000 /dev/urandom >f"); err != nil {
		return err
	}
	longest := func(snapshot bool) (time.Duration, error) {
		var text string
		ended := make(chan error, 1)
		go func() {
			var err error
			text, err = run("python3", "-c", stands)
			ended <- err
		}()
		time.Sleep(time.Second) // the program runs for longer
		var err error
		if snapshot {
			var made struct {
				ID string `json:"snapshot_id"`
			}
			if err = s.ask(ctx, http.MethodPost, session(id)+"/snapshots", map[string]any{}, &made); err == nil {
				err = s.ask(ctx, http.MethodDelete, prefix+"/snapshots/"+made.ID, nil, nil)
			}
		}
		if err = errors.Join(err, <-ended); err != nil {
			return 0, err
		}
		took, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		return time.Duration(took * float64(time.Millisecond)), err
	}
	var times [2][]time.Duration
	for range 5 {
		for i := range times {
			took, err := longest(i == 0)
			if err != nil {
				return err
			}
			times[i] = append(times[i], took)
		}
	}
	out.put("programs stand still for a snapshot of 100 MB, in comparison with none, p50", "100 ms", "%.0f and %.0f ms",
		ms(quantile(times[0], 0.5)), ms(quantile(times[1], 0.5)))
	return nil
}

// live measures a live copy of a session on gVisor.
func live(ctx context.Context, s *daemon, out *sheet) error {
	const what = "gVisor: a live copy of a session, in comparison with a new one, p50"
	var made struct {
		ID string `json:"session_id"`
	}
	begin := func() error {
		return s.ask(ctx, http.MethodPost, prefix+"/sessions", map[string]any{"spec_version": "1.1", "base_image": "host", "runtime": "gvisor"}, &made)
	}
	if err := begin(); err != nil {
		out.put(what, "300 ms", "not measured: %.80s", err)
		return nil
	}
	of := made.ID
	defer closeSession(ctx, s, of)
	end := func() error { return closeSession(ctx, s, made.ID) }
	fresh, err := apart(8, begin, end)
	if err != nil {
		return err
	}
	copied, err := apart(8, func() error {
		var fork struct {
			Sessions []struct {
				ID string `json:"session_id"`
			} `json:"sessions"`
		}
		err := s.ask(ctx, http.MethodPost, session(of)+"/fork", map[string]any{"live": true}, &fork)
		if err == nil {
			made.ID = fork.Sessions[0].ID
		}
		return err
	}, end)
	if err != nil {
		return err
	}
	out.put(what, "300 ms", "%.0f and %.0f ms", ms(quantile(copied, 0.5)), ms(quantile(fresh, 0.5)))
	return nil
}

// apart measures do, but not undo.
func apart(n int, do, undo func() error) (times []time.Duration, err error) {
	for i := range n + 2 {
		begin := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		if i >= 2 {
			times = append(times, time.Since(begin))
		}
		if err := undo(); err != nil {
			return nil, err
		}
	}
	return times, nil
}
