package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/belljar/belljar"
)

// images implements [belljar.Images].
type images struct{ c *Client }

var _ belljar.Images = images{}

// Images gives access to the server's images.
func (c *Client) Images() belljar.Images { return images{c} }

// List lists the images.
func (i images) List(ctx context.Context) ([]belljar.Image, error) {
	return items[belljar.Image](ctx, i.c, nil, "images")
}

// Get describes an image.
func (i images) Get(ctx context.Context, ref string) (belljar.Image, error) {
	var image belljar.Image
	return image, i.c.get(ctx, &image, url.Values{"ref": {ref}}, "images", "inspect")
}

// Pull makes the server pull an image. If the connection breaks, the server ends the pull, unless other clients wait for
// it.
func (i images) Pull(ctx context.Context, p belljar.ImagePull, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	return i.follow(ctx, request{method: http.MethodPost, path: route("images", "pull"), send: p}, p.Ref, progress)
}

// Import sends an image. It is not retried, since r can be read only once.
func (i images) Import(ctx context.Context, name string, r io.Reader, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	query := url.Values{}
	if name != "" {
		query.Set("name", name)
	}
	uploaded := make(chan belljar.ImageProgress, 1) // progress of the upload; only the latest counts
	body := &sent{r: r, progress: uploaded}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range uploaded {
			if progress != nil {
				progress(p)
			}
		}
	}()
	image, err := i.follow(ctx, request{
		method: http.MethodPost, path: route("images", "import"), query: query, stream: body, longer: fileTime,
		header: http.Header{"Content-Type": {"application/x-tar"}, "Expect": {"100-continue"}},
	}, name, func(p belljar.ImageProgress) {
		body.stop()
		<-done // from here on the server reports progress; never two callbacks at once
		if progress != nil {
			progress(p)
		}
	})
	body.stop()
	<-done
	if fault := body.fault.Load(); err != nil && fault != nil {
		return belljar.Image{}, *fault
	}
	return image, err
}

// sent is the body of an import: it reports its progress and records its read error.
type sent struct {
	r        io.Reader
	n        int64
	fault    atomic.Pointer[error]
	mu       sync.Mutex
	progress chan belljar.ImageProgress // nil after stop
}

func (s *sent) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the archive could not be read to its end", Err: err}
		s.fault.Store(&err)
	}
	s.n += int64(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress != nil {
		select {
		case <-s.progress: // outdated
		default:
		}
		s.progress <- belljar.ImageProgress{Phase: belljar.ImagePulling, Done: s.n}
	}
	return n, err
}

// stop ends the progress of the upload.
func (s *sent) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress != nil {
		close(s.progress)
		s.progress = nil
	}
}

// follow sends a request for an image, reports its progress and returns the image.
func (i images) follow(ctx context.Context, r request, ref string, progress func(belljar.ImageProgress)) (image belljar.Image, err error) {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set("Accept", "text/event-stream")
	resp, err := i.c.open(ctx, r)
	if err != nil {
		return image, err
	}
	defer resp.Body.Close()
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return image, unexpected(resp)
	}
	for e, err := range events(resp.Body) {
		if err != nil {
			return image, i.lost(ctx, ref, err)
		}
		switch e.name {
		case "progress":
			var p belljar.ImageProgress
			if err = json.Unmarshal(e.data, &p); err == nil && progress != nil {
				progress(p)
			}
		case "done":
			if err = json.Unmarshal(e.data, &image); err == nil {
				return image, nil
			}
		case "error":
			var body struct {
				Error *belljar.Error `json:"error"`
			}
			if err = json.Unmarshal(e.data, &body); err == nil && body.Error != nil {
				return image, body.Error
			}
		}
		if err != nil {
			e := unexpected(resp)
			e.Err = err
			return image, e
		}
	}
	return image, i.lost(ctx, ref, io.ErrUnexpectedEOF)
}

// lost returns the error for a stream that broke.
func (i images) lost(ctx context.Context, ref string, err error) error {
	if e := contextError(ctx); e != nil {
		return e
	}
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "the connection broke while the server made the image ready", Err: err,
		Details: map[string]any{"image": ref},
		Hint:    "it may continue there: request it again",
	}
}

// Tag adds a name to an image.
func (i images) Tag(ctx context.Context, ref, name string) (belljar.Image, error) {
	var image belljar.Image
	return image, i.c.ask(ctx, request{method: http.MethodPost, path: route("images", "tag"), send: map[string]string{"ref": ref, "name": name}}, &image)
}

// Remove removes a name of an image, and with its last name the image. It is not retried after a broken connection: the
// retry would find nothing.
func (i images) Remove(ctx context.Context, ref string) error {
	return i.c.ask(ctx, request{
		method: http.MethodDelete, path: route("images"), query: url.Values{"ref": {ref}}, once: true, longer: fileTime,
	}, nil)
}

// Prune removes unused images. It is not retried after a broken connection: the retry would not report what the first try
// removed.
func (i images) Prune(ctx context.Context, p belljar.ImagePrune) (belljar.ImagePruned, error) {
	var gone belljar.ImagePruned
	return gone, i.c.ask(ctx, request{
		method: http.MethodPost, path: route("images", "prune"), send: p, once: true, longer: fileTime,
	}, &gone)
}
