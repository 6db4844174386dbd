//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// open opens the stream of a run.
func (s *daemon) open(ctx context.Context, id string) (*websocket.Conn, error) {
	conn, resp, err := websocket.Dial(ctx, s.URL+prefix+"/runs/"+id+"/stream", &websocket.DialOptions{
		HTTPHeader: http.Header{"X-Api-Key": {s.Key}},
	})
	if err != nil {
		if resp != nil {
			return nil, fmt.Errorf("open stream: %s: %w", resp.Status, err)
		}
		return nil, err
	}
	conn.SetReadLimit(1 << 20)
	return conn, nil
}

// latency measures the time from a program's write to the client's read of the frame, on the clock that both
// share.
func latency(ctx context.Context, s *daemon, out *sheet) error {
	program := "import sys,time\nfor i in range(600):\n time.sleep(0.004)\n print(time.time_ns(),flush=True)\n"
	var run answer
	if err := s.ask(ctx, http.MethodPost, prefix+"/runs", oneShot("python3", "-c", program), &run); err != nil {
		return err
	}
	conn, err := s.open(ctx, run.ID)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	var times []time.Duration
	line := ""
	for {
		_, message, err := conn.Read(ctx)
		now := time.Now().UnixNano()
		if err != nil {
			break
		}
		var f struct {
			Type string `json:"type"`
			Data any    `json:"data"`
		}
		if err := json.Unmarshal(message, &f); err != nil {
			return err
		}
		text, ok := f.Data.(string)
		if !ok || f.Type != "stdout" {
			continue
		}
		line += text
		for { // a line may come in two frames, and two lines in one
			first, rest, whole := strings.Cut(line, "\n")
			if !whole {
				break
			}
			line = rest
			then, err := strconv.ParseInt(first, 10, 64)
			if err != nil {
				return err
			}
			times = append(times, time.Duration(now-then))
		}
	}
	if len(times) < 300 {
		return fmt.Errorf("latency: %d frames only", len(times))
	}
	out.put("a program's write to the client's frame, p50", "2 ms", "%.2f ms", ms(quantile(times, 0.5)))
	out.put("the same, p99", "20 ms", "%.2f ms", ms(quantile(times, 0.99)))
	return nil
}

// stream measures how fast one run's output reaches one reader.
func stream(ctx context.Context, s *daemon, out *sheet) error {
	const size = 96 << 20
	spec := oneShot("sh", "-c", fmt.Sprintf("yes 'the quick brown fox jumps over the lazy dog 0123456789' | head -c %d", size))
	spec["resources"] = map[string]any{"log_bytes": 100 << 20}
	best := 0.0
	for range 3 {
		var run answer
		if err := s.ask(ctx, http.MethodPost, prefix+"/runs", spec, &run); err != nil {
			return err
		}
		conn, err := s.open(ctx, run.ID)
		if err != nil {
			return err
		}
		var begin time.Time
		total := 0
		for {
			_, message, err := conn.Read(ctx)
			if err != nil {
				break
			}
			if strings.HasPrefix(string(message[:min(len(message), 20)]), `{"type":"stdout"`) {
				if begin.IsZero() {
					begin = time.Now()
				}
				total += len(message)
			}
		}
		if total < size {
			return fmt.Errorf("stream: %d bytes of %d", total, size)
		}
		best = max(best, size/time.Since(begin).Seconds()/1e6)
		conn.CloseNow()
	}
	out.put("output of one run, streamed as text to one reader", "100 MB/s", "%.0f MB/s", best)
	return nil
}

// gather measures the server's memory while many readers follow one run.
func gather(ctx context.Context, s *daemon, out *sheet, readers int) error {
	before, err := s.resident()
	if err != nil {
		return err
	}
	spec := oneShot("python3", "-c", "import time\nfor i in range(40):\n time.sleep(0.25)\n print('x'*1000,flush=True)\n")
	var run answer
	if err := s.ask(ctx, http.MethodPost, prefix+"/runs", spec, &run); err != nil {
		return err
	}
	var group sync.WaitGroup
	errs := make([]error, readers)
	for i := range readers {
		conn, err := s.open(ctx, run.ID)
		if err != nil {
			return fmt.Errorf("reader %d: %w", i, err)
		}
		group.Go(func() {
			defer conn.CloseNow()
			last := ""
			for {
				_, message, err := conn.Read(ctx)
				if err != nil {
					break
				}
				last = string(message)
			}
			if !strings.Contains(last, `"event":"end"`) {
				errs[i] = fmt.Errorf("reader %d did not get to the end, but to %.100s", i, last)
			}
		})
	}
	most := int64(0)
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-tick.C:
			now, err := s.resident()
			if err != nil {
				return err
			}
			most = max(most, now)
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	out.put(fmt.Sprintf("the server's memory with %d readers of one run", readers), "200 MB",
		"%.0f MB (%.0f before)", float64(most)/1e6, float64(before)/1e6)
	return nil
}
