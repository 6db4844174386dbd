//go:build linux

package port

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

func TestPreview(t *testing.T) {
	w := newWorld(t, Limits{Previews: true, PublicPreviews: true, PreviewsPerSession: 2})
	var expire func()
	w.opts.AfterFunc = func(d time.Duration, f func()) func() bool {
		if d != time.Hour {
			t.Errorf("expires after %v", d)
		}
		expire = f
		return func() bool { return true }
	}
	port := listen(t, echo)
	p, err := w.ann().Preview(t.Context(), w.state.ID, belljar.PreviewSpec{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Label) != 26 || p.Label != strings.ToLower(p.Label) || len(p.Token) != 43 || p.ExpiresAt.Sub(p.CreatedAt) != time.Hour || p.Public {
		t.Errorf("%+v", p)
	}
	for _, tokens := range [][]string{nil, {""}, {p.Token + "x"}, {p.Token[1:]}} {
		if _, err := w.OpenPreview(p.Label, tokens...); belljar.CodeOf(err) != belljar.CodeUnauthorized {
			t.Errorf("%q: %v", tokens, err)
		}
	}
	if got, err := w.OpenPreview(p.Label, "x", p.Token); err != nil || got.Port != port || got.Token != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.OpenPreview("x", p.Token); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Error(err)
	}
	c, err := w.DialPreview(t.Context(), p.Label)
	if err != nil {
		t.Fatal(err)
	}
	public, err := w.ann().Preview(t.Context(), w.state.ID, belljar.PreviewSpec{Port: port, Public: true, TTLSec: 3600})
	if err != nil || public.Token != "" {
		t.Fatal(public, err)
	}
	if _, err := w.OpenPreview(public.Label); err != nil {
		t.Error(err)
	}
	if _, err := w.ann().Preview(t.Context(), w.state.ID, belljar.PreviewSpec{Port: port}); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Errorf("a third: %v", err)
	}
	list, err := w.ann().Previews(t.Context(), w.state.ID)
	if err != nil || len(list) != 2 || list[0].Token != "" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := w.ann().Revoke(t.Context(), belljar.NewID(), p.Label); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("in another session: %v", err)
	}

	expire() // the second one's
	if _, err := w.OpenPreview(public.Label); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("expired: %v", err)
	}
	if err := w.ann().Revoke(t.Context(), w.state.ID, p.Label); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err == nil {
		t.Error("a connection survives its preview")
	}
	_ = c.Close()
	if err := w.ann().Revoke(t.Context(), w.state.ID, p.Label); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("revoked twice: %v", err)
	}
	if _, err := w.DialPreview(t.Context(), p.Label); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("revoked: %v", err)
	}
	var printed []string
	for len(w.events) > 0 {
		e := <-w.events
		printed = append(printed, strings.TrimSpace(e.Name+" "+e.Reason))
	}
	want := []string{
		event.PreviewCreated, event.PortOpened, event.PreviewCreated, event.PreviewEnded + " expired", event.PreviewEnded + " revoked", event.PortClosed,
	}
	// The connection closes while its preview is revoked: the order is random.
	if last := len(printed) - 2; last >= 0 {
		slices.Sort(printed[last:])
		slices.Sort(want[len(want)-2:])
	}
	if !slices.Equal(printed, want) {
		t.Errorf("%q", printed)
	}
}

// A preview ends with its session, and is refused if it is not permitted.
func TestPreviewRefused(t *testing.T) {
	w := newWorld(t, Limits{Previews: true})
	for name, spec := range map[string]belljar.PreviewSpec{"no port": {}, "short": {Port: 80, TTLSec: 0.5}, "long": {Port: 80, TTLSec: 99999999}} {
		if _, err := w.ann().Preview(t.Context(), w.state.ID, spec); belljar.CodeOf(err) != belljar.CodeInvalidRequest || strings.Contains(err.Error(), "e+") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.ann().Preview(t.Context(), w.state.ID, belljar.PreviewSpec{Port: 80, Public: true}); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("public: %v", err)
	}
	if _, err := w.As(belljar.Caller{ID: "bob"}).Preview(t.Context(), w.state.ID, belljar.PreviewSpec{Port: 80}); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("another user: %v", err)
	}
	p, err := w.ann().Preview(t.Context(), w.state.ID, belljar.PreviewSpec{Port: 80})
	if err != nil {
		t.Fatal(err)
	}
	w.end(nil)
	for <-w.events; w.find(p.Label) != nil; <-w.events { // created, ended
	}
	off := newWorld(t, Limits{})
	_, err = off.ann().Preview(t.Context(), off.state.ID, belljar.PreviewSpec{Port: 80})
	if belljar.CodeOf(err) != belljar.CodePolicyDenied || !strings.Contains(belljar.HintOf(err), "SANDBOX_PREVIEW_DOMAIN") {
		t.Errorf("off: %v", err)
	}
}

// A preview of a session that does not wake can be listed and revoked.
func TestPreviewAsleep(t *testing.T) {
	w := newWorld(t, Limits{Previews: true})
	p, err := w.ann().Preview(t.Context(), w.state.ID, belljar.PreviewSpec{Port: 80})
	if err != nil {
		t.Fatal(err)
	}
	w.opts.Acquire = func(context.Context, belljar.Caller, string) (Session, func(), error) {
		return nil, nil, &belljar.Error{Code: belljar.CodeRuntimeUnavailable}
	}
	if list, err := w.ann().Previews(t.Context(), w.state.ID); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := w.ann().Revoke(t.Context(), w.state.ID, p.Label); err != nil {
		t.Error(err)
	}
	if _, err := w.OpenPreview(p.Label, p.Token); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("revoked: %v", err)
	}
}
