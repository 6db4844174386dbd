package thread

import (
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// user is the thread API's name for the user that runs commands.
const user = "sandboxuser"

// creation is the request body of create_session.
type creation struct {
	UserID         string   `json:"user_id,omitempty"`
	ThreadID       string   `json:"thread_id,omitempty"`
	TimeoutMinutes *float64 `json:"timeout_minutes,omitempty"`
}

// DefaultIdle is the default of timeout_minutes.
const DefaultIdle = 30 * time.Minute

func scopeOf(thread string) belljar.Scope { return belljar.Scope{Namespace: "thread", ID: thread} }

// create responds with 200 and a new session, or 409 and the thread's existing one (docs/compatibility.md#decisions).
func (c *call) create() {
	var in creation
	if !c.decode(&in) || !c.required([2]string{"user_id", in.UserID}, [2]string{"thread_id", in.ThreadID}) {
		return
	}
	idle := c.door.opts.Idle.Minutes()
	if in.TimeoutMinutes != nil {
		idle = *in.TimeoutMinutes
	}
	if idle <= 0 || math.IsNaN(idle) || math.IsInf(idle, 0) {
		api.WriteJSON(c.w, http.StatusBadRequest, fault{"error": "timeout_minutes must be more than 0"})
		return
	}
	begun := c.door.opts.Now()
	session, created, err := c.service.Sessions().Open(c.r.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: c.door.opts.Image, Scope: scopeOf(in.ThreadID), TTLSec: idle * 60,
		Resources: belljar.Resources{WorkspaceMB: c.door.opts.MaxWorkspaceMB}, WorkspaceExec: true,
		Labels: map[string]string{"user_id": in.UserID, "thread_id": in.ThreadID},
	}})
	if err != nil {
		c.limited(err, "", in.ThreadID)
		if !c.exhausted(err) {
			err = api.Renamed(err, map[string]string{"scope.id": "thread_id", "labels": "user_id"})
			c.fail(api.InUnit(err, "ttl_sec", "timeout_minutes", "minutes", 1.0/60))
		}
		return
	}
	answer := map[string]any{
		"session_id": session.ID, "thread_id": in.ThreadID, "workspace_dir": belljar.WorkspaceDir, "user": user,
	}
	l := line{user: in.UserID, thread: in.ThreadID, session: session.ID, took: c.door.opts.Now().Sub(begun)}
	if created {
		c.log("session_created", l)
		answer["status"], answer["expires_at"] = "created", stamp(session.ExpiresAt)
		api.WriteJSON(c.w, http.StatusOK, answer)
		return
	}
	c.log("session_reused", l)
	answer["status"], answer["created_at"], answer["last_activity"] = "existing", stamp(session.CreatedAt), stamp(lastActivity(session))
	api.WriteJSON(c.w, http.StatusConflict, answer)
}

// exhausted responds if err means that the node has its maximum of sessions; false if not.
func (c *call) exhausted(err error) bool {
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeQuotaExceeded || e.Details["quota"] != "node_sessions" {
		return false
	}
	_, header := api.Explain(c.r.Context(), err)
	for name, values := range header {
		c.w.Header()[name] = values
	}
	api.WriteJSON(c.w, http.StatusServiceUnavailable, fault{"error": "Pool at max capacity", "code": e.Code, "hint": e.Hint})
	return true
}

// find returns the active session of a thread; false if there is none.
func (c *call) find(thread string) (belljar.Session, bool, error) {
	key := scopeOf(thread).String()
	page, err := c.service.Sessions().List(c.r.Context(), belljar.SessionQuery{KeyPrefix: key, Limit: belljar.MaxPage})
	if err != nil {
		return belljar.Session{}, false, err
	}
	for _, session := range page.Items {
		if session.ScopeKey == key && session.UserID == c.caller.ID && !session.State.Ended() {
			return session, true, nil
		}
	}
	return belljar.Session{}, false, nil
}

// get responds with the session of a thread.
func (c *call) get() {
	thread, ok := c.query("thread_id")
	if !ok {
		return
	}
	session, found, err := c.find(thread)
	files := 0
	if err == nil && found && session.State != belljar.SessionStarting { // a starting session has none, and may wait for an operator
		files, _, err = c.usage(session.ID)
		if api.SessionEnded(err) {
			found, err = false, nil // it has ended meanwhile
		}
		if aboutFile(err) && belljar.CodeOf(err) == belljar.CodeConflict {
			files, err = 0, nil // its programs made the workspace unreadable, which does not end it
		}
	}
	switch {
	case err != nil:
		c.fail(api.Renamed(err, map[string]string{"key_prefix": "thread_id"}))
	case !found:
		api.WriteJSON(c.w, http.StatusNotFound, fault{"error": "No active session found for thread_id", "thread_id": thread})
	default:
		c.log("session_reused", line{user: session.Labels["user_id"], thread: thread, session: session.ID})
		api.WriteJSON(c.w, http.StatusOK, map[string]any{
			"session_id": session.ID, "thread_id": thread, "status": "active", "created_at": stamp(session.CreatedAt),
			"last_activity": stamp(lastActivity(session)), "workspace_dir": belljar.WorkspaceDir, "files_count": files,
		})
	}
}

// maxListed limits the listed entries of a workspace.
const maxListed = 10000

// usage returns the number and the total size of the files in a workspace. Above maxListed entries it returns the file
// system's figures, which include folders.
func (c *call) usage(id string) (files int, bytes int64, err error) {
	release, err := c.reserve(id, maxListed*api.EntryBytes/api.Escaped) // the answer has only the sums
	if err != nil {
		return 0, 0, err
	}
	defer release()
	list, err := c.service.Files().List(c.r.Context(), id, belljar.FileQuery{Recursive: true, Limit: maxListed})
	for _, e := range list.Entries {
		if e.Type == "file" {
			files++
			bytes += e.Size
		}
	}
	if err == nil && list.Truncated {
		var space belljar.Space
		space, err = c.service.Files().Space(c.r.Context(), id)
		return int(space.Files), space.Bytes, err
	}
	return files, bytes, err
}

// cleanup ends a session.
func (c *call) cleanup() {
	var in struct {
		SessionID string `json:"session_id,omitempty"`
	}
	if !c.decode(&in) || !c.required([2]string{"session_id", in.SessionID}) {
		return
	}
	if err := c.service.Sessions().Delete(c.r.Context(), in.SessionID); err != nil {
		if !c.gone(err, in.SessionID) {
			c.fail(err)
		}
		return
	}
	api.WriteJSON(c.w, http.StatusOK, map[string]any{"status": "cleaned_up", "session_id": in.SessionID})
}

// health responds without figures to a request without a key.
func (d *Door) health(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "" && r.Header.Get("X-Api-Key") == "" {
		api.WriteJSON(w, http.StatusOK, map[string]any{"status": "healthy"})
		return
	}
	d.guarded((*call).health)(w, r)
}

// health responds with the node's figures.
func (c *call) health() {
	d := c.door
	n := d.opts.Health()
	api.WriteJSON(c.w, http.StatusOK, map[string]any{
		"status": "healthy", "worker_id": "worker1", "pool_size": n.PoolSize, "pool_available": n.PoolAvailable,
		"active_sessions": n.ActiveSessions, "uptime_seconds": int64(d.opts.Now().Sub(d.begun).Seconds()), "redis_connected": false,
	})
}

func lastActivity(s belljar.Session) time.Time {
	if s.LastActivityAt.IsZero() {
		return s.CreatedAt
	}
	return s.LastActivityAt
}

// stamp formats a time for the thread API.
func stamp(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }
