//go:build linux

package mcp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/mcp"
	"github.com/belljar/belljar/test/apitest"
)

// Each message of a batch counts as a request of its user's rate.
func TestBatchCountsEachMessage(t *testing.T) {
	now := time.Now()
	limits := api.NewLimits(api.LimitsOptions{PerUser: 10, Now: func() time.Time { return now }})
	h := newWorld(t).httpServer(func(o *mcp.DoorOptions) {
		o.Auth = limits.Guarded(apitest.Keys{"ann": {ID: "ann", Role: belljar.RoleUser}, "root": {ID: "root", Role: belljar.RoleAdmin}})
	})
	for key, refused := range map[string]bool{"ann": true, "root": false} {
		c := h.client(t, key, "")
		initializeAs(t, c, "tests", "2025-03-26") // two requests
		batch := func(n int) string {
			var list []string
			for i := range n {
				list = append(list, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, 100+i))
			}
			return bodyOf(t, c.do(t.Context(), "POST", "["+strings.Join(list, ",")+"]", map[string]string{"Mcp-Protocol-Version": "2025-03-26"}))
		}
		if got := batch(7); !strings.HasPrefix(got, "200") || strings.Count(got, `"result"`) != 7 {
			t.Errorf("%s: seven: %s", key, got)
		}
		if got := batch(2); strings.HasPrefix(got, "429") != refused || refused && !strings.Contains(got, "rate_limited") {
			t.Errorf("%s: two more: %s", key, got)
		}
	}
}

// Large files and outputs are read only once there is room for the answer in its user's share of memory, until it is sent.
func TestLargeAnswersShareMemory(t *testing.T) {
	const limit = 1 << 20
	w := newWorld(t)
	h := w.httpServer(nil)
	p, _ := h.peer(t, "ann", "?mode=code")
	sandbox := p.open()
	req := belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: "1.1", SessionID: sandbox, Command: []string{"sh", "-c", "head -c 100000 /dev/zero >f; echo done"}, CapturePatterns: []string{"f"},
	}}
	run, _, err := belljar.Finish(t.Context(), w.as("ann").Runs(), req, patience)
	if err != nil || run.Phase != belljar.PhaseCompleted {
		t.Fatalf("%+v, %v", run, err)
	}
	file := map[string]any{"sandbox_id": sandbox, "path": "f"}
	reads := map[string]func() (refused bool, text string){
		"a part": func() (bool, string) { r := p.tool("sandbox_fs_read", file); return r.bad, r.text },
	}
	for _, uri := range []string{fmt.Sprintf("sandboxes/%s/files/f", sandbox), fmt.Sprintf("runs/%s/output", run.ID), fmt.Sprintf("runs/%s/artifacts/f", run.ID)} {
		reads[uri] = func() (bool, string) {
			r := p.rpc("resources/read", map[string]any{"uri": "belljar://" + uri})
			return r.Error != nil, string(r.raw)
		}
	}
	for name, read := range reads {
		shares := api.NewShares(limit, 0)
		h.door.SetAnswers(shares)
		release, err := shares.Take(t.Context(), "ann", limit-300_000)
		if err != nil {
			t.Fatal(err)
		}
		if refused, text := read(); !refused || !strings.Contains(text, "too much is being sent or read at once") {
			t.Errorf("%s without room: %.300s", name, text)
		}
		release()
		shares = api.NewShares(limit, patience)
		h.door.SetAnswers(shares)
		if refused, text := read(); refused {
			t.Errorf("%s: %.300s", name, text)
		}
		if release, err = shares.Take(t.Context(), "ann", limit); err != nil {
			t.Errorf("%s keeps its share: %v", name, err)
		} else {
			release()
		}
	}
}
