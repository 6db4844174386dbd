package shell

import (
	"net/http"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// sessionInfo is a session in the shell API.
type sessionInfo struct {
	ID           string    `json:"id"`
	Image        string    `json:"image"`
	Status       string    `json:"status"` // running | expired | destroyed | crashed
	Cwd          string    `json:"cwd"`    // of its shell, after the last command
	CreatedAt    time.Time `json:"created_at"`
	ExpiresAt    time.Time `json:"expires_at"`
	LastActivity time.Time `json:"last_activity"`
}

func infoOf(s belljar.Session) sessionInfo {
	info := sessionInfo{
		ID: s.ID, Image: s.BaseImage, Status: "running", Cwd: s.Cwd,
		CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt, LastActivity: s.LastActivityAt,
	}
	if info.Cwd == "" {
		info.Cwd = belljar.WorkspaceDir
	}
	if info.LastActivity.IsZero() {
		info.LastActivity = s.CreatedAt
	}
	switch s.State {
	case belljar.SessionExpired:
		info.Status = "expired"
	case belljar.SessionClosed:
		info.Status = "destroyed"
	case belljar.SessionCrashed, belljar.SessionLost:
		info.Status = "crashed"
	}
	return info
}

// create creates a session. Its workspace allows execution (docs/compatibility.md#decisions).
func (c *call) create() error {
	var in struct {
		Image      string  `json:"image,omitempty"`
		TTLSeconds float64 `json:"ttl_seconds,omitempty"`
	}
	if err := c.decode(maxCommand, &in); err != nil {
		return err
	}
	if in.TTLSeconds < 0 {
		e := api.Refuse("ttl_seconds", "ttl_seconds must not be negative, got %v", in.TTLSeconds)
		e.Details["provided"] = in.TTLSeconds
		return e
	}
	s, _, err := c.Sessions().Open(c.r.Context(), belljar.SessionRequest{
		SessionSpec: belljar.SessionSpec{
			BaseImage: in.Image, TTLSec: in.TTLSeconds, WorkspaceExec: true,
			Scope: belljar.Scope{Key: belljar.IsolatedKey}, // always a new one
		},
		IdempotencyKey: c.r.Header.Get("Idempotency-Key"),
	})
	if err != nil {
		return api.Renamed(err, map[string]string{"base_image": "image", "ttl_sec": "ttl_seconds"})
	}
	api.WriteJSON(c.w, http.StatusCreated, infoOf(s))
	return nil
}

// list responds with the caller's sessions, the newest first, including ended ones.
func (c *call) list() error {
	q, err := api.Query(c.r, "limit", "offset")
	if err != nil {
		return err
	}
	limit, err := number(q, "limit", belljar.MaxPage, belljar.MaxPage)
	if err != nil {
		return err
	}
	var offset int64
	if q.Get("offset") != "0" {
		if offset, err = number(q, "offset", 0, 1<<31-1); err != nil {
			return err
		}
	}
	release, err := c.door.opts.Lists.ForAnswer(c.r.Context(), 1)
	if err != nil {
		return err
	}
	defer release()
	page, err := c.Sessions().List(c.r.Context(), belljar.SessionQuery{All: true, Limit: int(limit), Offset: int(offset)})
	if err != nil {
		return err
	}
	list := make([]sessionInfo, 0, len(page.Items))
	for _, s := range page.Items {
		list = append(list, infoOf(s))
	}
	return c.answer(list)
}

func (c *call) get() error {
	s, err := c.Sessions().Get(c.r.Context(), c.id)
	if err != nil {
		return err
	}
	return c.answer(infoOf(s))
}

func (c *call) destroy() error {
	if err := c.Sessions().Delete(c.r.Context(), c.id); err != nil {
		return err
	}
	return c.ok()
}
