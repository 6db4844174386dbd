//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const prefix = "/api/v1/sandbox"

// daemon is a belljar serve under load.
type daemon struct {
	URL   string `json:"url"`
	Key   string `json:"api_key"`
	ready time.Duration
	cmd   *exec.Cmd
	web   *http.Client
}

// start starts a server on a folder and waits until it reports that it is ready.
func start(binary, data string, args ...string) (*daemon, error) {
	s := &daemon{web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	s.cmd = exec.Command(binary, append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--data", data,
		"--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0", "--set", "ws_connects_per_min=0",
		"--set", "quota_cpu_seconds_per_day=0", "--set", "quota_concurrent_runs=0", "--set", "end_sessions=true", "--set", "log_level=warn"}, args...)...)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, s)
	}
	if err == nil {
		var resp *http.Response
		if resp, err = s.web.Get(s.URL + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("readyz: %s", resp.Status)
			}
		}
	}
	s.ready = time.Since(begin)
	if err != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		return nil, fmt.Errorf("start the server: %w", err)
	}
	return s, nil
}

// stop stops the server and waits for its end.
func (s *daemon) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// ask sends a request and decodes the response into to, unless that is nil.
func (s *daemon) ask(ctx context.Context, method, path string, body, to any) error {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("X-API-KEY", s.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s %.300s", method, path, resp.Status, raw)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(raw, to)
}

// resident returns the server's current resident set, in bytes.
func (s *daemon) resident() (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS")
}

// answer is the part of a run's response that is used.
type answer struct {
	ID    string `json:"id"`
	Phase string `json:"phase"`
}

func oneShot(command ...string) map[string]any {
	return map[string]any{"spec_version": "1.0", "base_image": "host", "command": command}
}
