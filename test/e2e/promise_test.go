//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// promise is the server's response about one run. Every later server must keep it:
//
//   - the run is known, ends once and stays in that phase; it has started at most once
//   - once its command runs it is not lost, whatever happens to the server
//   - its log is numbered from 1 without a gap, and begins with the frames that were seen
//   - a client that saw its end, or the finished run, gets the same end again; its artifacts have the same bytes
//   - once cancelled, it does not continue
//   - its Idempotency-Key returns it
type promise struct {
	id       string
	output   string           // output of the command
	ended    bool             // a response or an event has reported its end
	asked    bool             // a client has requested its cancellation
	canceled bool             // and a response has confirmed it in time
	seen     []map[string]any // frames, from seq 1 on
	artifact string           // content of out/a; "" for none
	key      string           // Idempotency-Key, and the body sent with it
	body     map[string]any
}

// check checks that a server keeps a promise. It returns the violation, or "".
func (p *promise) check(s *server) string {
	path := api + "/runs/" + p.id
	run, wrong := s.run(p.id)
	if wrong != "" {
		return wrong
	}
	if p.ended && run["finished_at"] == nil {
		return fmt.Sprintf("was reported as ended and is %v", run["phase"])
	}
	if run["finished_at"] == nil { // it was queued, and runs now
		if _, err := s.frames(path+"/logs?format=json&follow=true", nil); err != nil {
			return err.Error()
		}
		if run, wrong = s.run(p.id); wrong != "" {
			return wrong
		}
	}
	phase, reason := run["phase"], run["reason_code"]
	switch {
	case phase == "completed" && !p.canceled:
	case phase == "killed" && reason == "canceled_by_user" && p.asked && !p.ended:
	case phase == "failed" && reason == "node_lost" && !p.ended:
	default:
		return fmt.Sprintf("ended: %v, cancellation asked: %v, canceled: %v, and is %v, %v", p.ended, p.asked, p.canceled, phase, reason)
	}
	frames, err := s.frames(path+"/logs?format=json", nil)
	if err != nil {
		return err.Error()
	}
	if wrong := p.checkLog(run, frames); wrong != "" {
		return wrong
	}
	if p.artifact != "" && phase == "completed" {
		if got, err := s.get(path + "/artifacts/out/a"); p.ended && (err != nil || got != p.artifact) {
			return fmt.Sprintf("its artifact is %.40q, %v", got, err)
		}
	}
	return p.checkKey(s)
}

// checkLog checks the whole log of a finished run.
func (p *promise) checkLog(run map[string]any, frames []map[string]any) string {
	starts, ends := 0, 0
	var out strings.Builder
	for i, f := range frames {
		if f["seq"] != float64(i+1) {
			return fmt.Sprintf("frame %d of its log has seq %v: %v, %v", i+1, f["seq"], run, frames)
		}
		if i < len(p.seen) && !reflect.DeepEqual(f, p.seen[i]) {
			return fmt.Sprintf("frame %d was %v and is %v", i+1, p.seen[i], f)
		}
		switch {
		case f["type"] == "stdout":
			text, _ := f["data"].(string)
			out.WriteString(text)
		case f["event"] == "start":
			starts++
		case f["event"] == "end":
			ends++
		}
	}
	if len(frames) < len(p.seen) {
		return fmt.Sprintf("%d frames were seen and %d are there", len(p.seen), len(frames))
	}
	last := frames[len(frames)-1]
	data, _ := last["data"].(map[string]any)
	if ends != 1 || last["event"] != "end" || data["phase"] != run["phase"] || run["last_seq"] != last["seq"] {
		return fmt.Sprintf("its log has %d ends, the last frame is %v, the run %v", ends, last, run)
	}
	done := run["phase"] == "completed"
	if starts > 0 && run["reason_code"] == "node_lost" {
		return fmt.Sprintf("its command ran, and it is lost: %v, %v", run, frames)
	}
	if starts > 1 || done && starts == 0 {
		return fmt.Sprintf("it has started %d times: %v", starts, frames)
	}
	if got := out.String(); got != p.output && (done || !strings.HasPrefix(p.output, got)) {
		return fmt.Sprintf("it printed %q, not %q", got, p.output)
	}
	return ""
}

// checkKey sends the run's key again, with the same request and with another.
func (p *promise) checkKey(s *server) string {
	if p.key == "" {
		return ""
	}
	status, again, err := s.try(http.MethodPost, api+"/runs", p.body, "Idempotency-Key: "+p.key)
	if err != nil || status/100 != 2 || again["id"] != p.id {
		return fmt.Sprintf("its key again: %d %v, %v", status, again, err)
	}
	status, again, err = s.try(http.MethodPost, api+"/runs", oneShot("false"), "Idempotency-Key: "+p.key)
	if err != nil || status != http.StatusConflict {
		return fmt.Sprintf("its key with another request: %d %v, %v", status, again, err)
	}
	return ""
}

// run requests a run; wrong explains a failure.
func (s *server) run(id string) (run map[string]any, wrong string) {
	status, run, err := s.try(http.MethodGet, api+"/runs/"+id, nil)
	if err != nil || status != http.StatusOK {
		return nil, fmt.Sprintf("was accepted and is gone: %d %v, %v", status, run, err)
	}
	return run, ""
}

// frames reads a log in JSON to its end, and calls each for each frame. After an error it also returns the earlier frames.
func (s *server) frames(path string, each func(map[string]any)) (frames []map[string]any, err error) {
	body, err := s.open(path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(bytes.TrimSpace(line)) == 0 {
			return frames, nil
		}
		if err != nil {
			return frames, err
		}
		var f map[string]any
		if err := json.Unmarshal(line, &f); err != nil {
			return frames, fmt.Errorf("%q: %w", line, err)
		}
		frames = append(frames, f)
		if each != nil {
			each(f)
		}
	}
}

// get returns the body of a successful answer.
func (s *server) get(path string) (string, error) {
	body, err := s.open(path)
	if err != nil {
		return "", err
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	return string(raw), err
}

// open sends a request and returns the body of the successful response. It gives an error if no data arrives for longer than
// patience.
func (s *server) open(path string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(context.Background())
	late := time.AfterFunc(patience, cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("X-API-KEY", s.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel()
		defer resp.Body.Close()
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return nil, fmt.Errorf("GET %s: %d %s", path, resp.StatusCode, raw)
	}
	return &body{resp.Body, cancel, late}, nil
}

// body is the body of a response, with its timeout.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
	late   *time.Timer
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.late.Reset(patience)
	return n, err
}

func (b *body) Close() error {
	defer b.cancel()
	b.late.Stop()
	return b.ReadCloser.Close()
}
