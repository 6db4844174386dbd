package port

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

// previewTTL is the default life of a preview, in seconds.
const previewTTL = 3600

// preview is a host name of a port. It is in memory only: a restart revokes it.
type preview struct {
	state   belljar.Preview // without the token
	token   [sha256.Size]byte
	caller  belljar.Caller
	session Session

	ctx    context.Context // ends with the preview
	cancel context.CancelFunc
	stop   func() bool // stops the timer of its expiry
	unhook func() bool
}

// previews is a table by label. The zero value is empty.
type previews struct {
	mu      sync.Mutex
	byLabel map[string]*preview
}

// The reasons why previews end.
const (
	endRevoked = "revoked"
	endExpired = "expired"
	endSession = "session"
)

// Preview makes a preview.
func (v view) Preview(ctx context.Context, sessionID string, spec belljar.PreviewSpec) (belljar.Preview, error) {
	made, err := v.preview(ctx, sessionID, spec)
	if err != nil {
		return belljar.Preview{}, v.opts.Refused(v.caller, "make a preview", err)
	}
	return made, nil
}

func (v view) preview(ctx context.Context, sessionID string, spec belljar.PreviewSpec) (belljar.Preview, error) {
	if err := spec.Validate(); err != nil {
		return belljar.Preview{}, err
	}
	if err := v.allowed(spec); err != nil {
		return belljar.Preview{}, err
	}
	x, release, err := v.opts.Acquire(ctx, v.caller, sessionID)
	if err != nil {
		return belljar.Preview{}, err
	}
	defer release()
	now := v.opts.Now()
	ttl := time.Duration(cmp.Or(spec.TTLSec, previewTTL) * float64(time.Second))
	var label [16]byte
	var secret [32]byte
	_, _ = rand.Read(label[:]) // never fails
	_, _ = rand.Read(secret[:])
	p := &preview{caller: v.caller, session: x, state: belljar.Preview{
		Label:     strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(label[:])),
		SessionID: x.Session().ID, Port: spec.Port, Public: spec.Public, CreatedAt: now, ExpiresAt: now.Add(ttl),
	}}
	answer := p.state
	if !spec.Public {
		answer.Token = base64.RawURLEncoding.EncodeToString(secret[:])
		p.token = sha256.Sum256([]byte(answer.Token))
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if err := v.Ports.enter(p, ttl); err != nil {
		p.cancel()
		return belljar.Preview{}, err
	}
	return answer, nil
}

// allowed refuses a preview that the operator has not enabled.
func (v view) allowed(spec belljar.PreviewSpec) error {
	switch {
	case !v.opts.Limits.Previews:
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "this server has no previews",
			Hint: "its operator sets SANDBOX_PREVIEW_DOMAIN; belljar session forward reaches a port without one",
		}
	case spec.Public && !v.opts.Limits.PublicPreviews:
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "public previews are not allowed", Details: map[string]any{"field": "public"},
			Hint: "leave public out, or ask the operator to set SANDBOX_PREVIEW_PUBLIC",
		}
	}
	return nil
}

// enter adds a preview until it expires or its session ends.
func (p *Ports) enter(n *preview, ttl time.Duration) error {
	t := &p.previews
	t.mu.Lock()
	used := 0
	for _, other := range t.byLabel {
		if other.state.SessionID == n.state.SessionID {
			used++
		}
	}
	if most := p.opts.Limits.PreviewsPerSession; used >= most {
		t.mu.Unlock()
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("the session has %d of at most %d previews", used, most),
			Details: map[string]any{"quota": "previews", "used": used, "limit": most, "session_id": n.state.SessionID}, Hint: "revoke one",
		}
	}
	if t.byLabel == nil {
		t.byLabel = map[string]*preview{}
	}
	t.byLabel[n.state.Label] = n
	p.recordPreview(event.PreviewCreated, n.caller, n, "")
	n.stop = p.opts.AfterFunc(ttl, func() { p.endPreview(n.caller, n, endExpired) })
	n.unhook = context.AfterFunc(n.session.Life(), func() { p.endPreview(n.caller, n, endSession) })
	t.mu.Unlock()
	return nil
}

// endPreview ends a preview and its connections, in the name of a caller.
func (p *Ports) endPreview(by belljar.Caller, n *preview, reason string) {
	t := &p.previews
	t.mu.Lock()
	known := t.byLabel[n.state.Label] == n
	if known {
		delete(t.byLabel, n.state.Label)
		n.stop()
		n.unhook()
	}
	t.mu.Unlock()
	if known {
		n.cancel()
		p.recordPreview(event.PreviewEnded, by, n, reason)
	}
}

func (p *Ports) recordPreview(name string, by belljar.Caller, n *preview, reason string) {
	state := n.session.Session()
	p.opts.Record(event.Event{
		Name: name, Caller: by, Session: &state, Runtime: state.Runtime, Kind: strconv.Itoa(n.state.Port), Reason: reason,
		Detail: map[string]string{"label": n.state.Label, "port": strconv.Itoa(n.state.Port), "public": strconv.FormatBool(n.state.Public)},
	})
}

// Previews returns the previews of a session.
func (v view) Previews(_ context.Context, sessionID string) ([]belljar.Preview, error) {
	if err := v.opts.Check(v.caller, sessionID); err != nil {
		return nil, v.opts.Refused(v.caller, "list previews", err)
	}
	list := []belljar.Preview{}
	t := &v.previews
	t.mu.Lock()
	for _, n := range t.byLabel {
		if n.state.SessionID == sessionID {
			list = append(list, n.state)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b belljar.Preview) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Label, b.Label))
	})
	return list, nil
}

// Revoke ends a preview.
func (v view) Revoke(_ context.Context, sessionID, label string) error {
	if err := v.opts.Check(v.caller, sessionID); err != nil {
		return v.opts.Refused(v.caller, "revoke a preview", err)
	}
	n := v.find(label)
	if n == nil || n.state.SessionID != sessionID {
		return noPreview(label)
	}
	v.endPreview(v.caller, n, endRevoked)
	return nil
}

func (p *Ports) find(label string) *preview {
	p.previews.mu.Lock()
	defer p.previews.mu.Unlock()
	n := p.previews.byLabel[label]
	if n != nil && !p.opts.Now().Before(n.state.ExpiresAt) {
		return nil // the timer is late
	}
	return n
}

func noPreview(label string) error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("preview %.100q does not exist, or has ended", label),
		Details: map[string]any{"label": fmt.Sprintf("%.100s", label)},
	}
}

// OpenPreview returns the preview with a label if it is public, or one of the tokens is valid.
func (p *Ports) OpenPreview(label string, tokens ...string) (belljar.Preview, error) {
	n := p.find(label)
	if n == nil {
		return belljar.Preview{}, noPreview(label)
	}
	for _, token := range tokens {
		if hash := sha256.Sum256([]byte(token)); !n.state.Public && subtle.ConstantTimeCompare(hash[:], n.token[:]) == 1 {
			return n.state, nil
		}
	}
	if n.state.Public {
		return n.state, nil
	}
	return belljar.Preview{}, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "the preview needs its token"}
}

// DialPreview connects to the port of a preview in the name of its creator. The connection ends with the preview.
func (p *Ports) DialPreview(ctx context.Context, label string) (net.Conn, error) {
	n := p.find(label)
	if n == nil {
		return nil, noPreview(label)
	}
	c, err := p.dial(ctx, n.caller, n.state.SessionID, n.state.Port)
	if err != nil {
		return nil, p.opts.Refused(n.caller, "connect to a preview", err)
	}
	return &previewConn{c, context.AfterFunc(n.ctx, func() { _ = c.Abort() })}, nil
}

// previewConn is a connection of a preview.
type previewConn struct {
	*conn
	unhook func() bool
}

// Close implements [net.Conn].
func (c *previewConn) Close() error {
	c.unhook()
	return c.conn.Close()
}
