//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"sync"
	"time"
)

// threads measures the thread API's load scenarios on a separate server: a hundred threads that open concurrently, commands at
// 1,000 a minute over fifty sessions, a hundred concurrent file operations, and sessions that come and go. Every operation must
// succeed, and no sandbox may be left.
func threads(ctx context.Context, binary, data string, seconds int, out *sheet) (err error) {
	s, err := start(binary, data, "--set", "quota_sessions=0", "--set", "max_sessions=1000")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	begin := time.Now()
	ids, times, err := openThreads(ctx, s, "t", 100)
	if err != nil {
		return err
	}
	out.put("100 threads opening at once, p95; all of them", "no error", "%.0f ms; %.2f s", ms(quantile(times, 0.95)), time.Since(begin).Seconds())
	if err := commands(ctx, s, ids[:50], time.Duration(seconds)*time.Second, out); err != nil {
		return err
	}
	if err := fileCrowd(ctx, s, ids, out); err != nil {
		return err
	}
	if err := churn(ctx, s, time.Duration(seconds)*time.Second/2, out); err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := s.thread(ctx, http.MethodPost, "cleanup", map[string]any{"session_id": id}); err != nil {
			return err
		}
	}
	left, err := s.thread(ctx, http.MethodGet, "health", nil)
	if err == nil && left["active_sessions"] != 0.0 {
		err = fmt.Errorf("sessions left behind: %v", left["active_sessions"])
	}
	return err
}

// thread sends a request of the thread API.
func (s *daemon) thread(ctx context.Context, method, name string, body map[string]any) (map[string]any, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	return s.threadRaw(ctx, method, name, "application/json", content)
}

func (s *daemon) threadRaw(ctx context.Context, method, name, contentType string, content io.Reader) (map[string]any, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+"/thread/"+name, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", contentType)
	resp, err := s.web.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.300s", name, resp.Status, raw)
	}
	answer := map[string]any{}
	if resp.Header.Get("Content-Type") == "application/json" {
		err = json.Unmarshal(raw, &answer)
	}
	return answer, err
}

// atOnce runs do n times concurrently and returns how long each call took.
func atOnce(n int, do func(i int) error) (times []time.Duration, err error) {
	times = make([]time.Duration, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			begin := time.Now()
			errs[i] = do(i)
			times[i] = time.Since(begin)
		})
	}
	all.Wait()
	return times, errors.Join(errs...)
}

func openThreads(ctx context.Context, s *daemon, name string, n int) (ids []string, times []time.Duration, err error) {
	ids = make([]string, n)
	times, err = atOnce(n, func(i int) error {
		made, err := s.thread(ctx, http.MethodPost, "create_session", map[string]any{"user_id": "load", "thread_id": fmt.Sprintf("%s%d", name, i)})
		if err == nil {
			ids[i], _ = made["session_id"].(string)
		}
		return err
	})
	return ids, times, err
}

// commands sends commands at the API's pace over sessions, for d.
func commands(ctx context.Context, s *daemon, ids []string, d time.Duration, out *sheet) error {
	const pace = time.Minute / 1000
	n := int(d / pace)
	first, times := time.Now(), make([]time.Duration, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		time.Sleep(time.Until(first.Add(time.Duration(i) * pace)))
		all.Go(func() {
			begin := time.Now()
			_, errs[i] = s.thread(ctx, http.MethodPost, "execute", map[string]any{"session_id": ids[i%len(ids)], "command": "date | wc -c"})
			times[i] = time.Since(begin)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	out.put(fmt.Sprintf("commands at 1,000 a minute over %d sessions, p50 and p99", len(ids)), "no error",
		"%.1f and %.1f ms (%d commands)", ms(quantile(times, 0.5)), ms(quantile(times, 0.99)), n)
	return nil
}

// fileCrowd uploads, lists and downloads concurrently.
func fileCrowd(ctx context.Context, s *daemon, ids []string, out *sheet) error {
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<10/16)
	begin := time.Now()
	times, err := atOnce(100, func(i int) error {
		var b bytes.Buffer
		form := multipart.NewWriter(&b)
		err := form.WriteField("session_id", ids[i])
		if err == nil {
			var part io.Writer
			if part, err = form.CreateFormFile("file", "data.bin"); err == nil {
				_, err = part.Write(content)
			}
		}
		if err = errors.Join(err, form.Close()); err != nil {
			return err
		}
		if _, err := s.threadRaw(ctx, http.MethodPost, "upload_file", form.FormDataContentType(), &b); err != nil {
			return err
		}
		if _, err := s.thread(ctx, http.MethodGet, "list_files?session_id="+ids[i], nil); err != nil {
			return err
		}
		_, err = s.thread(ctx, http.MethodPost, "download_file", map[string]any{"session_id": ids[i], "filename": "data.bin"})
		return err
	})
	out.put("100 at once: 64 KiB up, list, down; p95; all of them", "no error", "%.0f ms; %.2f s", ms(quantile(times, 0.95)), time.Since(begin).Seconds())
	return err
}

// churn opens and cleans up threads for d, eight at a time.
func churn(ctx context.Context, s *daemon, d time.Duration, out *sheet) error {
	begin, n := time.Now(), 0
	for time.Since(begin) < d {
		ids, _, err := openThreads(ctx, s, fmt.Sprintf("churn%d-", n), 8)
		if err != nil {
			return err
		}
		if _, err := atOnce(len(ids), func(i int) error {
			_, err := s.thread(ctx, http.MethodPost, "cleanup", map[string]any{"session_id": ids[i]})
			return err
		}); err != nil {
			return err
		}
		n += len(ids)
	}
	out.put("threads opened and cleaned up, eight at once", "no error", "%.0f a second", float64(n)/time.Since(begin).Seconds())
	return nil
}
