package rest

import (
	"context"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

type imageList struct {
	Items []belljar.Image `json:"items"`
}

// imageQuery names an image.
type imageQuery struct {
	Ref string `query:"ref" required:"true" doc:"A name of the image, or its digest" example:"python:3.11-slim"`
}

// ImageTag is a request for another name of an image.
type ImageTag struct {
	Ref  string `json:"ref" minLength:"1"`
	Name string `json:"name" minLength:"1"`
}

const imagesPath = api.Prefix + "/images"

func (d *Door) images() {
	handle(d, huma.Operation{
		OperationID: "list-images", Method: http.MethodGet, Path: imagesPath, Tags: []string{"images"},
		Summary:     "List images",
		Description: "Images of Belljar's own store, which every runtime can use, and images of the runtimes' engines; runtime names the owner.",
	}, func(c *call, _ *none, _ *none) (imageList, error) {
		found, err := c.Images().List(c)
		return imageList{namedImages(found)}, err
	})
	handle(d, huma.Operation{
		OperationID: "inspect-image", Method: http.MethodGet, Path: imagesPath + "/inspect", Tags: []string{"images"},
		Summary: "Describe an image",
	}, func(c *call, p *imageQuery, _ *none) (belljar.Image, error) {
		return oneImage(c.Images().Get(c, p.Ref))
	})
	handle(d, huma.Operation{
		OperationID: "tag-image", Method: http.MethodPost, Path: imagesPath + "/tag", Tags: []string{"images"},
		Summary:     "Add a name to an image",
		Description: "Any valid image name. If another image has the name, it moves. Operators only.",
	}, func(c *call, _ *none, body *ImageTag) (belljar.Image, error) {
		return oneImage(c.Images().Tag(c, body.Ref, body.Name))
	})
	handle(d, huma.Operation{
		OperationID: "prune-images", Method: http.MethodPost, Path: imagesPath + "/prune", Tags: []string{"images"},
		Summary:     "Remove images that are not used",
		Description: "Needs at least one of the fields. Images that a sandbox uses are kept. Operators only.",
	}, func(c *call, _ *none, body *belljar.ImagePrune) (belljar.ImagePruned, error) {
		gone, err := c.Images().Prune(c, *body)
		gone.Images = filled(gone.Images)
		return gone, err
	})
	command(d, huma.Operation{
		OperationID: "remove-image", Method: http.MethodDelete, Path: imagesPath, Tags: []string{"images"},
		Summary:     "Remove a name of an image, or the image",
		Description: "Removing the last name, or removing by digest, removes the image. 409 while a sandbox uses it; details.sessions and details.runs list the users. Operators only.",
	}, func(c *call, p *imageQuery) error {
		return c.Images().Remove(c, p.Ref)
	})
	streams := &imageDoor{d.as, d.opts.Bodies, d.opts.MaxImage}
	d.guarded("POST "+imagesPath+"/pull", streams.pull)
	d.guarded("POST "+imagesPath+"/import", streams.receive)
}

// namedImages replaces nil lists by empty ones.
func namedImages(list []belljar.Image) []belljar.Image {
	for i := range list {
		list[i].Names = filled(list[i].Names)
	}
	return filled(list)
}

func oneImage(i belljar.Image, err error) (belljar.Image, error) {
	i.Names = filled(i.Names)
	return i, err
}

// imageDoor handles pull and import, whose responses may be streams.
type imageDoor struct {
	as     func(context.Context) belljar.Service
	bodies *api.Shares
	most   int64 // bytes of an image
}

// pull pulls an image, with events if the client accepts them.
func (d *imageDoor) pull(w http.ResponseWriter, r *http.Request) {
	var in belljar.ImagePull
	_, err := api.Query(r)
	if err == nil {
		err = d.readPull(w, r, &in)
	}
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	serveImage(w, r, nil, func(ctx context.Context, tell func(belljar.ImageProgress)) (belljar.Image, error) {
		return d.as(ctx).Images().Pull(ctx, in, tell)
	})
}

func (d *imageDoor) readPull(w http.ResponseWriter, r *http.Request, in *belljar.ImagePull) error {
	if err := api.CheckJSON(r); err != nil {
		return err
	}
	data, give, err := d.bodies.ReadBody(w, r, maxBody)
	if err != nil {
		return err
	}
	defer give()
	return api.Decode(data, in)
}

// archiveTypes are the media types of an import. The format is detected from the bytes.
func archiveTypes() []string {
	return []string{"application/x-tar", "application/gzip", "application/zstd", "application/octet-stream"}
}

// receive imports an image, streamed from the body.
func (d *imageDoor) receive(w http.ResponseWriter, r *http.Request) {
	if err := checkImport(r); err != nil {
		api.Fail(w, r, err)
		return
	}
	api.LimitBody(w, r, d.most)
	body := &source{in: r.Body, limit: d.most}
	defer body.close()
	read := &eofReader{in: body}
	serveImage(w, r, &read.over, func(ctx context.Context, tell func(belljar.ImageProgress)) (belljar.Image, error) {
		got, err := d.as(ctx).Images().Import(ctx, r.URL.Query().Get("name"), read, tell)
		if err != nil {
			err = body.cause(err)
		}
		return got, err
	})
}

func checkImport(r *http.Request) error {
	if _, err := api.Query(r, "name"); err != nil {
		return err
	}
	if err := api.CheckEncoding(r, "send the archive without Content-Encoding; compression is detected from its content"); err != nil {
		return err
	}
	given := r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(given)
	switch media {
	case "application/x-tar", "application/tar", "application/gzip", "application/x-gzip", "application/zstd", "application/octet-stream":
		return nil
	}
	if given == "" && err != nil {
		return nil
	}
	return api.WrongType(given, archiveTypes()...)
}

// eofReader is a body that records when it has been read to its end.
type eofReader struct {
	in   io.Reader
	over atomic.Bool
}

func (e *eofReader) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	if err == io.EOF {
		e.over.Store(true)
	}
	return n, err
}

// serveImage responds with the image that do returns. If the client accepts events, it streams progress and at last done
// or error. While read is false the body is still being read, and the response must not start.
func serveImage(w http.ResponseWriter, r *http.Request, read *atomic.Bool, do func(context.Context, func(belljar.ImageProgress)) (belljar.Image, error)) {
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		got, err := oneImage(do(r.Context(), nil))
		if err != nil {
			api.Fail(w, r, err)
			return
		}
		api.WriteJSON(w, http.StatusOK, got)
		return
	}
	out := newEvents(w, read)
	got, err := oneImage(do(r.Context(), func(p belljar.ImageProgress) { out.event("progress", p) }))
	begun := out.end()
	switch {
	case err != nil && !begun:
		api.Fail(w, r, err)
	case err != nil:
		e, _ := api.Explain(r.Context(), err)
		_, body := api.Body("", e)
		out.last("error", body)
	default:
		out.last("done", got)
	}
}

// declareImages adds the operations whose responses may be streams to the document.
func declareImages(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas
	image := schemas.Schema(reflect.TypeFor[belljar.Image](), true, "Image")
	schemas.Schema(reflect.TypeFor[belljar.ImageProgress](), true, "ImageProgress")
	pull := schemas.Schema(reflect.TypeFor[belljar.ImagePull](), true, "ImagePull")
	raw := &huma.Schema{Type: "string", Format: "binary"}
	ready := func() map[string]*huma.Response {
		return map[string]*huma.Response{"200": {Description: "The image is ready", Content: map[string]*huma.MediaType{
			"application/json": {Schema: image}, "text/event-stream": {Schema: &huma.Schema{Type: "string"}},
		}}}
	}
	const events = "With `Accept: text/event-stream` the events are progress (an ImageProgress, the newest of each layer and phase), and at last " +
		"done (the image) or error."
	archives := map[string]*huma.MediaType{}
	for _, media := range archiveTypes() {
		archives[media] = &huma.MediaType{Schema: raw}
	}
	doc.AddOperation(&huma.Operation{
		OperationID: "pull-image", Method: "POST", Path: imagesPath + "/pull", Tags: []string{"images"},
		Summary: "Fetch an image from its registry",
		Description: "Returns when the image is ready; at once if it is stored. Concurrent requests for an image wait for one pull, and a pull without a waiting " +
			"request is cancelled. Users may pull what the policy allows; runtime, which makes a runtime's engine pull the image, is for operators. " + events,
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: pull}}},
		Responses:   ready(),
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "import-image", Method: "POST", Path: imagesPath + "/import", Tags: []string{"images"},
		Summary: "Import an image",
		Description: "The body is a tar archive of an OCI layout, of docker save or of a root file system, optionally compressed with gzip or zstd. " +
			"Operators only. " + events + " Events start when the body has been read.",
		Parameters:  []*huma.Param{inQuery("name", "Its name; default: the name in the archive", &huma.Schema{Type: "string"})},
		RequestBody: &huma.RequestBody{Required: true, Content: archives},
		Responses:   ready(),
	})
}
