//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/sqlite"
)

// history measures queries of a server with many recorded runs.
func history(ctx context.Context, binary, data string, rows int, out *sheet) (err error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	id, err := fill(ctx, filepath.Join(data, "belljar.db"), rows)
	if err != nil {
		return fmt.Errorf("put %d runs on record: %w", rows, err)
	}
	s, err := start(binary, data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	out.put(fmt.Sprintf("ready with %d runs on record", rows), "300 ms", "%.0f ms", ms(s.ready))
	for _, q := range []struct{ what, path string }{
		{"the status of a run", "/runs/" + id},
		{"a user's list of runs", "/runs?limit=50"},
		{"everybody's runs by phase, sorted", "/admin/runs?phase=failed&sort=finished_at:desc&limit=50"},
		{"a search in everybody's runs", "/admin/runs?q=needle&limit=50"},
		{"a page far back", "/admin/runs?limit=50&offset=90000"},
	} {
		var times []time.Duration
		for range 40 {
			begin := time.Now()
			if err := s.ask(ctx, http.MethodGet, prefix+q.path, nil, nil); err != nil {
				return err
			}
			times = append(times, time.Since(begin))
		}
		out.put(fmt.Sprintf("%s of %d, p95", q.what, rows), "20 ms", "%.1f ms", ms(quantile(times, 0.95)))
	}
	return nil
}

// fill records finished runs and returns the id of one in the middle.
func fill(ctx context.Context, path string, rows int) (middle string, err error) {
	records, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	work := make(chan store.Run)
	failed := make(chan error, 1)
	done := make(chan struct{})
	const writers = 64
	for range writers {
		go func() {
			for r := range work {
				open := r
				open.Phase, open.ReasonCode, open.Message, open.LastSeq = belljar.PhaseStarting, "", "", 0
				open.StartedAt, open.FinishedAt = nil, nil
				_, err := records.Runs().Insert(ctx, open, nil)
				if err == nil {
					err = records.Runs().Finish(ctx, r)
				}
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
			done <- struct{}{}
		}()
	}
	begin := time.Now().Add(-24 * time.Hour).UTC()
	step := 24 * time.Hour / time.Duration(rows)
	for i := range rows {
		r := store.Run{Run: belljar.Run{
			ID: belljar.NewID(), UserID: fmt.Sprintf("user-%d", i%50), Phase: belljar.PhaseCompleted, SpecVersion: "1.0",
			Runtime: "native", BaseImage: "host", Command: []string{"/bin/true"}, CreatedAt: begin.Add(step * time.Duration(i)),
		}, LastSeq: 5}
		if i%10 == 0 {
			r.Phase, r.ReasonCode, r.Message = belljar.PhaseFailed, belljar.ReasonNonZeroExit, "command exited with status 1"
		}
		started, finished := r.CreatedAt, r.CreatedAt.Add(20*time.Millisecond)
		r.StartedAt, r.FinishedAt = &started, &finished
		if i == rows/2 {
			middle, r.Message = r.ID, "a needle"
		}
		work <- r
	}
	close(work)
	for range writers {
		<-done
	}
	select {
	case err := <-failed:
		return "", err
	default:
		return middle, nil
	}
}
