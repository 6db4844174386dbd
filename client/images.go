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

// images are the root file systems on the server.
type images struct{ c *Client }

var _ belljar.Images = images{}

// Images are the root file systems on the server.
func (c *Client) Images() belljar.Images { return images{c} }

// List lists the images.
func (i images) List(ctx context.Context) ([]belljar.Image, error) {
	var list struct {
		Items []belljar.Image `json:"items"`
	}
	err := i.c.get(ctx, &list, nil, "images")
	return list.Items, err
}

// Get describes an image.
func (i images) Get(ctx context.Context, ref string) (belljar.Image, error) {
	var image belljar.Image
	return image, i.c.get(ctx, &image, url.Values{"ref": {ref}}, "images", "inspect")
}

// Pull has the server fetch an image. When the connection breaks in the midst of it, the pull may go on there: for as long
// as somebody else waits for it, too.
func (i images) Pull(ctx context.Context, p belljar.ImagePull, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return belljar.Image{}, err
	}
	return i.follow(ctx, request{method: http.MethodPost, path: route("images", "pull"), body: raw}, p.Ref, progress)
}

// Import sends an image. It is not repeated when the connection breaks: what it is read from can be read once.
func (i images) Import(ctx context.Context, name string, r io.Reader, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	query := url.Values{}
	if name != "" {
		query.Set("name", name)
	}
	tell := make(chan belljar.ImageProgress, 1) // of what is sent; the newest is enough
	body := &sent{r: r, tell: tell}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range tell {
			if progress != nil {
				progress(p)
			}
		}
	}()
	image, err := i.follow(ctx, request{
		method: http.MethodPost, path: route("images", "import"), query: query, stream: body, longer: fileTime,
		header: http.Header{"Content-Type": {"application/x-tar"}, "Expect": {"100-continue"}},
	}, name, func(p belljar.ImageProgress) {
		body.quiet()
		<-done // the server speaks, and one at a time
		if progress != nil {
			progress(p)
		}
	})
	body.quiet()
	<-done
	if fault := body.fault.Load(); err != nil && fault != nil {
		return belljar.Image{}, *fault
	}
	return image, err
}

// sent is an archive on its way: it tells how much has left, and remembers why it cannot be read.
type sent struct {
	r     io.Reader
	n     int64
	fault atomic.Pointer[error]
	mu    sync.Mutex
	tell  chan belljar.ImageProgress // nil once nobody listens
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
	if s.tell != nil {
		select {
		case <-s.tell: // nobody has taken it, and it is old
		default:
		}
		s.tell <- belljar.ImageProgress{Phase: belljar.ImagePulling, Done: s.n}
	}
	return n, err
}

// quiet ends what is told of the sending.
func (s *sent) quiet() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tell != nil {
		close(s.tell)
		s.tell = nil
	}
}

// follow asks for an image and tells how it comes about, until it is there.
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
		return image, stranger(resp)
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
			foreign := stranger(resp)
			foreign.Err = err
			return image, foreign
		}
	}
	return image, i.lost(ctx, ref, io.ErrUnexpectedEOF)
}

// lost is the failure of a stream that broke off.
func (i images) lost(ctx context.Context, ref string, err error) error {
	if e := given(ctx); e != nil {
		return e
	}
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "the connection broke while the server made the image ready", Err: err,
		Details: map[string]any{"image": ref},
		Hint:    "it may go on there: ask for it again",
	}
}

// Tag gives an image one more name.
func (i images) Tag(ctx context.Context, ref, name string) (belljar.Image, error) {
	var image belljar.Image
	raw, err := json.Marshal(map[string]string{"ref": ref, "name": name})
	if err != nil {
		return image, err
	}
	return image, i.c.ask(ctx, request{method: http.MethodPost, path: route("images", "tag"), body: raw}, &image)
}

// Remove takes a name away, and with its last one the image. It is not repeated when the connection breaks: it would find
// nothing.
func (i images) Remove(ctx context.Context, ref string) error {
	return i.c.ask(ctx, request{
		method: http.MethodDelete, path: route("images"), query: url.Values{"ref": {ref}}, once: true, longer: fileTime,
	}, nil)
}

// Prune removes what is not used. It is not repeated when the connection breaks: what went would not be told.
func (i images) Prune(ctx context.Context, p belljar.ImagePrune) (belljar.ImagePruned, error) {
	var gone belljar.ImagePruned
	raw, err := json.Marshal(p)
	if err != nil {
		return gone, err
	}
	return gone, i.c.ask(ctx, request{
		method: http.MethodPost, path: route("images", "prune"), body: raw, once: true, longer: fileTime,
	}, &gone)
}
