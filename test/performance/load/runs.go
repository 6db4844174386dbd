//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// single measures one run after the other over HTTP.
func single(ctx context.Context, s *daemon, out *sheet) error {
	var times []time.Duration
	for i := range 120 {
		begin := time.Now()
		if err := runTrue(ctx, s); err != nil {
			return err
		}
		if i >= 20 {
			times = append(times, time.Since(begin))
		}
	}
	out.put("one-shot /bin/true over HTTP, durable, alone, p50", "8 ms", "%.1f ms", ms(quantile(times, 0.5)))
	out.put("the same, p95", "20 ms", "%.1f ms", ms(quantile(times, 0.95)))
	return nil
}

func runTrue(ctx context.Context, s *daemon) error {
	var run answer
	if err := s.ask(ctx, http.MethodPost, prefix+"/runs?wait=30s", oneShot("/bin/true"), &run); err != nil {
		return err
	}
	if run.Phase != "completed" {
		return fmt.Errorf("run %s is %s", run.ID, run.Phase)
	}
	return nil
}

// crowd measures the runs per second of eight clients, compared with a server that only starts /bin/true without any isolation.
func crowd(ctx context.Context, s *daemon, out *sheet, d time.Duration) error {
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	bare := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := exec.Command("/bin/true").Run(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})}
	go bare.Serve(relay) //nolint:errcheck // it is closed below
	defer bare.Close()
	url := "http://" + relay.Addr().String()

	ours, theirs := 0.0, 0.0
	const turns = 4
	for range turns { // in turns, because the machine's speed changes
		n, err := perSecond(d/turns, func() error { return runTrue(ctx, s) })
		if err != nil {
			return err
		}
		ours += n / turns
		n, err = perSecond(d/turns/4, func() error {
			resp, err := s.web.Get(url)
			if err == nil {
				resp.Body.Close()
			}
			return err
		})
		if err != nil {
			return err
		}
		theirs += n / turns
	}
	out.put("one-shot /bin/true over HTTP, durable, 8 clients", "150 a second",
		"%.0f a second (a bare server that only forks: %.0f)", ours, theirs)
	return nil
}

// perSecond calls do from eight goroutines for d, and returns the rate.
func perSecond(d time.Duration, do func() error) (float64, error) {
	var n atomic.Int64
	var failed error
	var once sync.Once
	begin := time.Now()
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for time.Since(begin) < d {
				if err := do(); err != nil {
					once.Do(func() { failed = err })
					return
				}
				n.Add(1)
			}
		})
	}
	clients.Wait()
	return float64(n.Load()) / time.Since(begin).Seconds(), failed
}
