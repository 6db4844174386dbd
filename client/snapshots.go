package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/belljar/belljar"
)

// Snapshots gives access to the caller's saved workspaces.
func (c *Client) Snapshots() belljar.Snapshots { return snapshots{c} }

// snapshots implements [belljar.Snapshots].
type snapshots struct{ c *Client }

// archiveTime is added to Options.Silence for requests that wait for an archive, or for copies of a session.
const archiveTime = 10 * time.Minute

// post sends a request without retries: a retry would make another object.
func (s snapshots) post(ctx context.Context, spec, to any, parts ...string) error {
	return s.c.ask(ctx, request{method: http.MethodPost, path: route(parts...), send: spec, once: true, longer: archiveTime}, to)
}

// Make saves the files of a session's workspace.
func (s snapshots) Make(ctx context.Context, sessionID string, spec belljar.SnapshotSpec) (belljar.Snapshot, error) {
	var made belljar.Snapshot
	return made, s.post(ctx, spec, &made, "sessions", sessionID, "snapshots")
}

// Fork makes copies of a session.
func (s snapshots) Fork(ctx context.Context, sessionID string, spec belljar.ForkSpec) (belljar.Fork, error) {
	var made belljar.Fork
	return made, s.post(ctx, spec, &made, "sessions", sessionID, "fork")
}

// Get returns a snapshot.
func (s snapshots) Get(ctx context.Context, id string) (belljar.Snapshot, error) {
	var got belljar.Snapshot
	return got, s.c.get(ctx, &got, nil, "snapshots", id)
}

// List returns the caller's snapshots.
func (s snapshots) List(ctx context.Context, q belljar.SnapshotQuery) (belljar.SnapshotPage, error) {
	v := url.Values{}
	paging(v, q.Limit, q.Offset)
	var page belljar.SnapshotPage
	return page, s.c.get(ctx, &page, v, "snapshots")
}

// Remove removes a snapshot. A retried request may not find it.
func (s snapshots) Remove(ctx context.Context, id string) error {
	return s.c.ask(ctx, request{method: http.MethodDelete, path: route("snapshots", id), once: true}, nil)
}

// Export writes a snapshot to w.
func (s snapshots) Export(ctx context.Context, id string, w io.Writer) error {
	return download(ctx, s.c, request{path: route("snapshots", id, "archive"), longer: archiveTime}, "snapshot", w)
}

// Import makes a snapshot from an archive. It is not retried, since r can be read only once.
func (s snapshots) Import(ctx context.Context, spec belljar.SnapshotSpec, r io.Reader) (belljar.Snapshot, error) {
	query := url.Values{}
	if spec.Name != "" {
		query.Set("name", spec.Name)
	}
	content := &whole{r: r}
	var made belljar.Snapshot
	err := s.c.ask(ctx, request{
		method: http.MethodPost, path: route("snapshots", "import"), query: query, stream: content, longer: archiveTime,
		header: http.Header{"Content-Type": {"application/x-tar"}, "Expect": {"100-continue"}},
	}, &made)
	return made, content.why(err)
}
