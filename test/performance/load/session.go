//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// sessions measures operations in sessions, one at a time and by eight concurrent clients, compared with a relay that only
// passes a command from HTTP through a socket to a process that starts it.
func sessions(ctx context.Context, s *daemon, out *sheet, d time.Duration) error {
	id, err := openSession(ctx, s, nil)
	if err != nil {
		return err
	}
	r, err := startRelay()
	if err != nil {
		return err
	}
	defer r.stop()
	if err := execTimes(ctx, s, r, id, out); err != nil {
		return err
	}
	if err := execRates(ctx, s, r, out, d); err != nil {
		return err
	}
	for _, each := range []struct {
		what, budget string
		do           func() error
	}{
		{"a shell command in a session, p50", "3 ms", func() error {
			return s.ask(ctx, http.MethodPost, session(id)+"/shell", map[string]any{"cmd": "true"}, nil)
		}},
		{"print(1) in a context over HTTP, p50", "3 ms", func() error {
			return s.ask(ctx, http.MethodPost, session(id)+"/contexts/python/execute?wait=30s", map[string]any{"code": "print(1)", "language": "python"}, nil)
		}},
		{"fs write and read of 4 KB, p50", "2 ms", func() error { return writeAndRead(ctx, s, id) }},
		{"session open, first exec and close, p50", "", func() error { return wholeSession(ctx, s) }},
	} {
		times, err := timed(300, each.do)
		if err != nil {
			return err
		}
		out.put(each.what, each.budget, "%.2f ms", ms(quantile(times, 0.5)))
	}
	if err := echoes(ctx, s, id, out); err != nil {
		return err
	}
	if err := transfers(ctx, s, out); err != nil {
		return err
	}
	opened, err := openings(ctx, s, 60)
	if err != nil {
		return err
	}
	out.put("session and its first exec, one a moment, p50 (from the pool)", "3 ms", "%.2f ms", ms(quantile(opened, 0.5)))
	return closeSession(ctx, s, id)
}

// timed calls do repeatedly, and returns the duration of each call except the first ones.
func timed(n int, do func() error) (times []time.Duration, err error) {
	for i := range n + n/10 {
		begin := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		if i >= n/10 {
			times = append(times, time.Since(begin))
		}
	}
	return times, nil
}

// execTimes measures execs one after the other, in turns with the relay.
func execTimes(ctx context.Context, s *daemon, r *relay, id string, out *sheet) error {
	var ours, theirs []time.Duration
	for range 5 {
		times, err := timed(400, func() error { return execTrue(ctx, s, id) })
		if err != nil {
			return err
		}
		ours = append(ours, times...)
		if times, err = timed(200, func() error { return r.run(ctx) }); err != nil {
			return err
		}
		theirs = append(theirs, times...)
	}
	out.put("exec of /bin/true in a session over HTTP, alone, p50", "2 ms", "%.2f ms (a bare relay: %.2f)", ms(quantile(ours, 0.5)), ms(quantile(theirs, 0.5)))
	out.put("the same, p99", "8 ms", "%.2f ms (a bare relay: %.2f)", ms(quantile(ours, 0.99)), ms(quantile(theirs, 0.99)))
	return nil
}

// execRates measures the execs per second of eight clients, in turns with the relay.
func execRates(ctx context.Context, s *daemon, r *relay, out *sheet, d time.Duration) error {
	one, err := openSession(ctx, s, map[string]any{"cpu": 2})
	if err != nil {
		return err
	}
	narrow, err := openSession(ctx, s, nil)
	if err != nil {
		return err
	}
	const turns = 4
	var rates [3]float64
	for range turns {
		for i, do := range []func() error{
			func() error { return execTrue(ctx, s, one) },
			func() error { return execTrue(ctx, s, narrow) },
			func() error { return r.run(ctx) },
		} {
			n, err := perSecond(d/turns/2, do)
			if err != nil {
				return err
			}
			rates[i] += n / turns
		}
	}
	out.put("exec of /bin/true over HTTP, 8 clients of a session with 2 processors", "800 a second", "%.0f a second (a bare relay: %.0f)", rates[0], rates[2])
	out.put("the same, of a session with 1 processor", "", "%.0f a second", rates[1])
	return closeSession(ctx, s, one, narrow)
}

// openings measures a session and its first exec, with pauses for a pool to fill.
func openings(ctx context.Context, s *daemon, n int) (times []time.Duration, err error) {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for range n {
		<-pause.C
		begin := time.Now()
		id, err := openSession(ctx, s, nil)
		if err == nil {
			err = execTrue(ctx, s, id)
		}
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(begin))
		if err := closeSession(ctx, s, id); err != nil {
			return nil, err
		}
	}
	return times, nil
}

func wholeSession(ctx context.Context, s *daemon) error {
	id, err := openSession(ctx, s, nil)
	if err == nil {
		err = execTrue(ctx, s, id)
	}
	if err != nil {
		return err
	}
	return closeSession(ctx, s, id)
}

func session(id string) string { return prefix + "/sessions/" + id }

func openSession(ctx context.Context, s *daemon, resources map[string]any) (string, error) {
	body := map[string]any{"spec_version": "1.0", "base_image": "host"}
	if resources != nil {
		body["resources"] = resources
	}
	var made struct {
		ID string `json:"session_id"`
	}
	err := s.ask(ctx, http.MethodPost, prefix+"/sessions", body, &made)
	return made.ID, err
}

func closeSession(ctx context.Context, s *daemon, ids ...string) error {
	for _, id := range ids {
		if err := s.ask(ctx, http.MethodDelete, session(id), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

func execTrue(ctx context.Context, s *daemon, id string) error {
	var got struct {
		Status   string `json:"status"`
		ExitCode *int   `json:"exit_code"`
	}
	if err := s.ask(ctx, http.MethodPost, session(id)+"/exec", map[string]any{"cmd": []string{"/bin/true"}}, &got); err != nil {
		return err
	}
	if got.Status != "completed" || got.ExitCode == nil || *got.ExitCode != 0 {
		return fmt.Errorf("an exec is %+v", got)
	}
	return nil
}

// writeAndRead writes a file of 4 KB and reads it back.
func writeAndRead(ctx context.Context, s *daemon, id string) error {
	contents := strings.Repeat("0123456789abcdef", 256)
	write := map[string]any{"path": "bench/file", "contents": contents, "overwrite": true}
	if err := s.ask(ctx, http.MethodPost, session(id)+"/fs/write", write, nil); err != nil {
		return err
	}
	var got struct{ Contents string }
	if err := s.ask(ctx, http.MethodPost, session(id)+"/fs/read", map[string]any{"path": "bench/file"}, &got); err != nil {
		return err
	}
	if got.Contents != contents {
		return fmt.Errorf("read %d bytes of %d", len(got.Contents), len(contents))
	}
	return nil
}
