package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/upstream"
)

// Rules lists the requests that this runtime sends, for the guard of its API: exec sessions of one sprite, and nothing
// else.
func Rules(sprite string) []upstream.Rule {
	exec := "/v1/sprites/" + sprite + "/exec"
	return []upstream.Rule{
		{Methods: []string{http.MethodGet}, Path: exec, Below: true},
		{Methods: []string{http.MethodPost}, Path: exec, Below: true},
	}
}

// wake is how long a sprite may take to wake up and answer.
const wake = time.Minute

// dial opens a WebSocket to the sprite. id is the request's id. session is "" for a new session.
func (r *Runtime) dial(ctx context.Context, below string, query url.Values, id, session string) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, wake)
	defer cancel()
	header := http.Header{upstream.RequestIDHeader: {id}}
	conn, resp, err := websocket.Dial(ctx, r.opts.API.URL(r.exec(below), query), &websocket.DialOptions{
		HTTPClient: r.opts.API.Client(), HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		return newLine(conn, session), nil
	}
	var failed *upstream.Failure
	switch {
	case errors.As(err, &failed):
	case ctx.Err() != nil && resp == nil:
		return nil, fmt.Errorf("the sprite did not answer: %w", context.Cause(ctx))
	case resp != nil && upstream.Answered(resp.StatusCode) != nil:
		errors.As(upstream.Answered(resp.StatusCode), &failed) // the answer's text may contain a token
	default:
		return nil, errors.New("the answer is no WebSocket")
	}
	return nil, failed
}

// exec returns the path of the sprite's exec sessions.
func (r *Runtime) exec(below string) string { return "/v1/sprites/" + r.opts.Sprite + "/exec" + below }

// launch starts an agent as a session and waits until the sprite has sent the session's name.
func (r *Runtime) launch(ctx context.Context, spec runtime.Spec) (*line, error) {
	config, err := json.Marshal(wire.AgentConfig{
		Stdio: true, LeaseMS: spec.Lease.Milliseconds(), Workspace: r.opts.Workspace, Secrets: r.opts.Secrets,
		Lock: "belljar:" + spec.ID,
	})
	if err != nil {
		return nil, err
	}
	// The agent's lease is shorter, so that it ends its programs before the sprite ends it.
	keep := 10 * time.Second
	if spec.Lifetime == runtime.LifetimeDetached {
		keep = max(2*spec.Lease, 24*time.Hour)
	}
	l, err := r.dial(ctx, "", url.Values{
		"cmd": {r.opts.Agent, string(config)}, "path": {r.opts.Agent}, "stdin": {"true"}, "tty": {"false"},
		"max_run_after_disconnect": {strconv.FormatInt(int64(keep.Seconds()), 10) + "s"},
	}, spec.ID, "")
	if err != nil {
		return nil, err
	}
	return l, nil
}

// join attaches to a session. Old versions of the API expect the session in the query.
func (r *Runtime) join(ctx context.Context, session, id string) (*line, error) {
	l, err := r.dial(ctx, "/"+session, url.Values{"stdin": {"true"}}, id, session)
	var failed *upstream.Failure
	if errors.As(err, &failed) && failed.Status == http.StatusNotFound {
		return r.dial(ctx, "", url.Values{"id": {session}, "stdin": {"true"}}, id, session)
	}
	return l, err
}

// living reports whether the sprite still has a session.
func (r *Runtime) living(ctx context.Context, session string) (bool, error) {
	var list struct {
		Sessions []struct {
			ID json.RawMessage `json:"id"`
		} `json:"sessions"`
	}
	if _, err := r.opts.API.Do(ctx, upstream.Call{Path: r.exec(""), Into: &list}); err != nil {
		return false, err
	}
	for _, s := range list.Sessions {
		if plain(s.ID) == session {
			return true, nil
		}
	}
	return false, nil
}

// kill ends a session's process. It succeeds if the session has ended.
func (r *Runtime) kill(ctx context.Context, session string) error {
	_, err := r.opts.API.Do(ctx, upstream.Call{
		Method: http.MethodPost, Path: r.exec("/" + session + "/kill"), Query: url.Values{"signal": {"SIGKILL"}, "timeout": {"5s"}},
	})
	var failed *upstream.Failure
	if errors.As(err, &failed) && (failed.Status == http.StatusNotFound || failed.Status == http.StatusGone) {
		return nil
	}
	return err
}
