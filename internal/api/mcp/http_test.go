//go:build linux

package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/mcp"
	"github.com/belljar/belljar/test/apitest"
)

// secret is the secret of all servers, so that one resumes the sessions of another.
var secret = []byte(strings.Repeat("s", 32))

// httpServer is a server with the door.
type httpServer struct {
	*httptest.Server
	door *mcp.Door
}

func (w *world) httpServer(change func(*mcp.DoorOptions)) *httpServer {
	w.t.Helper()
	o := mcp.DoorOptions{
		Kit: w.kit, Engine: w.service, Secret: secret,
		Auth: apitest.Keys{"ann": {ID: "ann", Role: belljar.RoleUser}, "bob": {ID: "bob", Role: belljar.RoleUser}, "root": {ID: "root", Role: belljar.RoleAdmin}},
	}
	if change != nil {
		change(&o)
	}
	door, err := mcp.NewDoor(o)
	if err != nil {
		w.t.Fatal(err)
	}
	h := &httpServer{httptest.NewServer(apitest.Handler(w.t, api.EdgeOptions{}, door)), door}
	w.t.Cleanup(func() {
		_ = door.Close() // it never fails
		h.Close()
	})
	return h
}

// web is a client on HTTP.
type web struct {
	t       *testing.T
	url     string
	key     string
	session string
	mu      sync.Mutex
	got     chan reply
	open    sync.WaitGroup
	cancel  context.CancelFunc
	ctx     context.Context
	events  []string // ids of those that came
}

func (h *httpServer) client(t *testing.T, key, query string) *web {
	c := &web{t: t, url: h.URL + "/mcp" + query, key: key, got: make(chan reply, 1000)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// peer returns an initialized client on HTTP.
func (h *httpServer) peer(t *testing.T, key, query string) (*peer, *web) {
	t.Helper()
	c := h.client(t, key, query)
	return initialize(t, c, "tests"), c
}

// post sends a body and returns the answer.
func (c *web) post(ctx context.Context, body string) *http.Response {
	c.t.Helper()
	return c.do(ctx, http.MethodPost, body, nil)
}

func (c *web) do(ctx context.Context, method, body string, header map[string]string) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	c.mu.Lock()
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	c.mu.Unlock()
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		c.t.Error(err)
		return nil
	}
	return resp
}

func (c *web) send(message map[string]any) {
	c.t.Helper()
	raw, err := json.Marshal(message)
	if err != nil {
		c.t.Fatal(err)
	}
	resp := c.post(c.ctx, string(raw))
	if resp == nil {
		return
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.mu.Lock()
		c.session = id
		c.mu.Unlock()
	}
	c.open.Add(1)
	go func() {
		defer c.open.Done()
		defer resp.Body.Close()
		c.follow(resp)
	}()
}

// follow reads an answer of any content type.
func (c *web) follow(resp *http.Response) {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		raw, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusAccepted {
			c.got <- reply{Error: &rpcError{Code: resp.StatusCode, Message: string(raw)}, raw: raw}
		}
		return
	}
	in := bufio.NewReaderSize(resp.Body, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			c.mu.Lock()
			c.events = append(c.events, string(bytes.TrimSpace(id)))
			c.mu.Unlock()
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && len(bytes.TrimSpace(data)) > 0 {
			var r reply
			if json.Unmarshal(data, &r) == nil {
				r.raw = bytes.Clone(data)
				c.got <- r
			}
		}
	}
}

func (c *web) next() reply {
	c.t.Helper()
	select {
	case r := <-c.got:
		return r
	case <-time.After(patience):
		c.t.Fatal("the server does not answer")
		return reply{}
	}
}

// close breaks all connections.
func (c *web) close() {
	c.cancel()
	c.open.Wait()
}

// firstEvent returns the id of the first event since the test emptied events.
func (c *web) firstEvent() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == 0 {
		return ""
	}
	return c.events[0]
}

// first reads an answer up to its first message, and leaves it open.
func (c *web) first(resp *http.Response) {
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			c.mu.Lock()
			c.events = append(c.events, string(bytes.TrimSpace(id)))
			c.mu.Unlock()
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && len(bytes.TrimSpace(data)) > 0 {
			c.got <- parse(c.t, data)
			return
		}
	}
}

// bodyOf returns the status and the body of an answer.
func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	if resp == nil {
		t.Fatal("no answer")
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, raw)
}
