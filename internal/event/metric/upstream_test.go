package metric

import (
	"testing"
	"time"

	"github.com/belljar/belljar/internal/event"
)

func TestUpstream(t *testing.T) {
	c := New(Options{})
	for _, e := range []event.Event{
		{Name: event.UpstreamRequest, Component: "sprites_api", Reason: "503", Took: time.Second},
		{Name: event.UpstreamRequest, Component: "http://evil", Reason: "a token", Took: time.Second},
		{Name: event.UpstreamReady, Component: "workspace_service", Took: time.Second},
		{Name: event.UpstreamReady, Component: "workspace_service", Reason: "auth", Took: time.Second},
		{Name: event.UpstreamFailed, Component: "sprites_api", Reason: "unreachable"},
		{Name: event.UpstreamLost, Component: "sprites_api"},
	} {
		c.Record(e)
	}
	got, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]string{
		"sandbox_upstream_request_duration_seconds_count": {"upstream": "sprites_api", "status": "503"},
		"sandbox_upstream_ready_duration_seconds_count":   {"upstream": "workspace_service", "reason": "auth"},
		"sandbox_upstream_attach_failures_total":          {"reason": "unreachable"},
		"sandbox_upstream_disconnects_total":              {},
	} {
		found := false
		for _, s := range got[name] {
			same := len(s.Labels) == len(want)
			for k, v := range want {
				same = same && s.Labels[k] == v
			}
			found = found || same && s.Value == 1
			for _, v := range s.Labels {
				if v == "http://evil" || v == "a token" {
					t.Errorf("%s has the label %q", name, v)
				}
			}
		}
		if !found {
			t.Errorf("%s: %+v", name, got[name])
		}
	}
}
