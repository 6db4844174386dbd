package hook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/belljar/belljar/internal/event"
)

// message is the body of a request. It excludes the request's program, its environment and the note of the decision: they may
// contain data that the receiver must not see.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      data      `json:"data"`
}

type data struct {
	ApprovalID  string     `json:"approval_id"`
	Kind        string     `json:"kind"`
	State       string     `json:"state"`
	Reasons     []string   `json:"reasons"`
	UserID      string     `json:"user_id"`
	Source      string     `json:"source,omitempty"`
	SessionID   string     `json:"session_id,omitempty"`
	RequestedAt time.Time  `json:"requested_at"`
	ExpiresAt   time.Time  `json:"expires_at"`
	DecidedAt   *time.Time `json:"decided_at,omitempty"`
	DecidedBy   string     `json:"decided_by,omitempty"`
}

// encode returns the id and the body of an event's message. They are the same in each attempt. A request that waits again after a restart, for
// another reason, keeps its approval's id; the time of the request tells the two apart.
func encode(e event.Event) (id string, body []byte) {
	a := e.Approval
	body, err := json.Marshal(message{Type: e.Name, Timestamp: e.Time.UTC(), Data: data{
		ApprovalID: a.ID, Kind: a.Kind, State: string(a.State), Reasons: a.Reasons, UserID: a.UserID, Source: a.Source, SessionID: a.SessionID,
		RequestedAt: a.RequestedAt, ExpiresAt: a.ExpiresAt, DecidedAt: a.DecidedAt, DecidedBy: a.DecidedBy,
	}})
	if err != nil {
		panic(err) // cannot fail: there are only texts and times
	}
	return fmt.Sprintf("%s_%d_%s", a.ID, a.RequestedAt.UnixMicro(), e.Name[strings.LastIndexByte(e.Name, '.')+1:]), body
}

// newClient returns a client that follows no redirect: a message is only for the operator's URL.
func newClient(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
