package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/belljar/belljar"
)

// revive begins a visit again that an earlier process of this server had: its client goes on as if nothing had happened,
// with the sandboxes that lived on. nil if it has ended in this process.
func (d *Door) revive(r *http.Request, caller belljar.Caller, p pass, id string) (*guest, error) {
	d.reviving.Lock()
	defer d.reviving.Unlock()
	d.mu.Lock()
	other, over := d.guests[id], d.ended[id]
	d.mu.Unlock()
	if over || other != nil { // another request was faster
		return other, nil
	}
	g, err := d.begin(r, caller, p, id)
	if err != nil {
		return nil, err
	}
	defer d.enter(g)()
	for _, message := range []map[string]any{
		{"jsonrpc": "2.0", "id": "revive", "method": "initialize", "params": map[string]any{
			"protocolVersion": p.Version, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": p.Client, "version": ""},
		}},
		{"jsonrpc": "2.0", "method": "notifications/initialized"},
	} {
		if err := d.whisper(g, message); err != nil {
			return nil, err
		}
	}
	if g.connected() == nil {
		d.dismiss(g)
		return nil, nil
	}
	return g, nil
}

// whisper sends the SDK a message of ours in a client's name.
func (d *Door) whisper(g *guest, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(context.WithValue(context.Background(), serverKey{}, g.server), http.MethodPost, Path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if g.connected() != nil {
		r.Header.Set(sessionHeader, g.session)
	}
	d.handler.ServeHTTP(deaf{}, r)
	return nil
}

// deaf hears no answer.
type deaf struct{}

func (deaf) Header() http.Header         { return http.Header{} }
func (deaf) Write(b []byte) (int, error) { return len(b), nil }
func (deaf) WriteHeader(int)             {}
func (deaf) Flush()                      {}
