//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// echoes measures the time from a key press to its echo: in a terminal whose program is cat, one character after the
// other.
func echoes(ctx context.Context, s *daemon, id string, out *sheet) error {
	conn, resp, err := websocket.Dial(ctx, s.URL+session(id)+"/terminals?command=cat", &websocket.DialOptions{
		HTTPHeader: http.Header{"X-Api-Key": {s.Key}},
	})
	if err != nil {
		if resp != nil {
			return fmt.Errorf("%w: %s", err, resp.Status)
		}
		return err
	}
	defer conn.CloseNow()
	press := func(key byte) error {
		if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"type":"input","data":%q}`, string(rune(key)))); err != nil {
			return err
		}
		for {
			_, raw, err := conn.Read(ctx)
			if err != nil {
				return err
			}
			var m struct{ Type, Data, Encoding string }
			if err := json.Unmarshal(raw, &m); err != nil {
				return err
			}
			data := []byte(m.Data)
			if m.Encoding == "base64" {
				if data, err = base64.StdEncoding.DecodeString(m.Data); err != nil {
					return err
				}
			}
			switch {
			case m.Type != "output":
			case string(data) != string(rune(key)):
				return fmt.Errorf("the echo of %q is %q", key, data)
			default:
				return nil
			}
		}
	}
	i := 0
	times, err := timed(300, func() error {
		i++
		return press('a' + byte(i%26))
	})
	if err != nil {
		return err
	}
	out.put("a key's press to its echo on a terminal, p50 and p99", "20 ms (p99)", "%.2f and %.2f ms", ms(quantile(times, 0.5)), ms(quantile(times, 0.99)))
	return nil
}

// transfers measures a file of 100 MB, up and down.
func transfers(ctx context.Context, s *daemon, out *sheet) error {
	const size = 100 << 20
	id, err := openSession(ctx, s, map[string]any{"workspace_mb": 256})
	if err != nil {
		return err
	}
	at := s.URL + session(id) + "/fs/raw?path=big&overwrite=true"
	content := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	move := func(method, url string, body io.Reader) (time.Duration, error) {
		req, err := http.NewRequestWithContext(ctx, method, url, body)
		if err != nil {
			return 0, err
		}
		req.Header.Set("X-API-KEY", s.Key)
		if body != nil {
			req.Header.Set("Content-Type", "application/octet-stream")
		}
		begin := time.Now()
		resp, err := s.web.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && (resp.StatusCode/100 != 2 || body == nil && n != size) {
			err = fmt.Errorf("%s %s: %s, %d bytes", method, url, resp.Status, n)
		}
		return time.Since(begin), err
	}
	best := [2]time.Duration{time.Hour, time.Hour}
	for range 5 {
		up, err := move(http.MethodPut, at, bytes.NewReader(content))
		if err != nil {
			return err
		}
		down, err := move(http.MethodGet, s.URL+session(id)+"/fs/raw?path=big", nil)
		if err != nil {
			return err
		}
		best[0], best[1] = min(best[0], up), min(best[1], down)
	}
	rate := func(d time.Duration) float64 { return size / 1e6 / d.Seconds() }
	out.put("a file of 100 MiB up and down, the best of five", "300 MB/s", "%.0f and %.0f MB/s", rate(best[0]), rate(best[1]))
	return closeSession(ctx, s, id)
}
