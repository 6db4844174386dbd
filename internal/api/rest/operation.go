package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// configure returns huma's configuration without its own routes, and with Belljar's errors.
func configure(version string) huma.Config {
	config := huma.DefaultConfig("Belljar", version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil
	config.Transformers = []huma.Transformer{ownErrors}
	return config
}

// adapter is the [Door] as huma's router.
type adapter Door

var _ huma.Adapter = (*adapter)(nil)

// Handle adds an operation's route.
func (a *adapter) Handle(op *huma.Operation, next func(huma.Context)) {
	d := (*Door)(a)
	known, admin := queryNames(op), strings.HasPrefix(op.Path, api.Prefix+"/admin/")
	large := slices.Contains([]string{"list-runs", "list-sessions", "list-artifacts", "list-templates", "list-images"}, op.OperationID)
	d.guarded(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		if admin && !api.AdmitOperator(d.opts.Events, w, r, "this is for operators") {
			return
		}
		x := &exchange{w: w, written: func() {}}
		_, err := api.Query(r, known...)
		if err == nil && large {
			x.written, err = d.opts.Lists.ForAnswer(r.Context(), 1)
		}
		if err != nil {
			api.Fail(w, r, err)
			return
		}
		x.r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		x.carrier = humago.NewContext(op, x.r, w)
		defer func() { x.written() }()
		next(x)
	})
}

// ServeHTTP is part of huma.Adapter; servers use [Door.Register].
func (a *adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*Door)(a).Handler().ServeHTTP(w, r)
}

type exchangeKey struct{}

// carrier renames huma.Context, so that embedding it does not hide its method Context.
type carrier = huma.Context

// exchange is one request in huma. After the first failure, which [api.Fail] writes, it drops all further output.
type exchange struct {
	carrier
	w      http.ResponseWriter
	r      *http.Request
	failed bool
	done   func() // releases the body's share; nil if there is none

	written func() // releases the response's share
}

// releaseBody releases the body's share once the body is no longer needed.
func (x *exchange) releaseBody() {
	if x.done != nil {
		x.done()
	}
}

func (x *exchange) fail(err error) {
	if !x.failed {
		x.failed = true
		api.Fail(x.w, x.r, err)
	}
}

// SetStatus does nothing after a failure.
func (x *exchange) SetStatus(code int) {
	if !x.failed {
		x.carrier.SetStatus(code)
	}
}

// SetHeader does nothing after a failure.
func (x *exchange) SetHeader(name, value string) {
	if !x.failed {
		x.carrier.SetHeader(name, value)
	}
}

// BodyWriter discards after a failure, and for HEAD, whose answer may not be that of GET.
func (x *exchange) BodyWriter() io.Writer {
	if x.failed || x.r.Method == http.MethodHead {
		return io.Discard
	}
	return x.carrier.BodyWriter()
}

// ownErrors converts huma's errors about parameters to Belljar's.
func ownErrors(ctx huma.Context, _ string, v any) (any, error) {
	x, ok := ctx.(*exchange)
	if found, is := v.(*huma.ErrorModel); is && ok {
		x.fail(parameterError(found))
	}
	return v, nil
}

func parameterError(found *huma.ErrorModel) error {
	if found.Status >= http.StatusInternalServerError || len(found.Errors) == 0 {
		return errors.New(found.Error())
	}
	first := found.Errors[0]
	_, name, _ := strings.Cut(first.Location, ".")
	e := api.Refuse(name, "%s: %s", name, first.Message)
	if first.Value != nil && first.Value != "" {
		e.Details["provided"] = first.Value
	}
	return e
}

// call is a request and the service for its caller.
type call struct {
	context.Context
	belljar.Service
	*exchange
	status int // of a successful response
}

// reserve exchanges the body's share for that of a large response of a request that only reads, until it is encoded.
func (c *call) reserve(of *api.Shares, bytes int64) error {
	c.releaseBody()
	api.OnlyReads(c)
	release, err := of.ForAnswer(c, bytes)
	if err == nil {
		c.written = release
	}
	return err
}

// reserves returns the function that reserves the share once the session is ready: one that starts or wakes reserves nothing meanwhile.
func (c *call) reserves(of *api.Shares, bytes int64) func() error {
	c.releaseBody()
	return func() error { return c.reserve(of, bytes) }
}

// reread returns the function that reserves the share for the output of a run that is read again.
func (c *call) reread(of *api.Shares) func(belljar.Run) error {
	return func(run belljar.Run) error { return c.reserve(of, api.OutputSize(run)) }
}

// none is the type of an absent body.
type none struct{}

// spare marks an optional body: a missing one is the same as an empty object.
type spare interface{ spare() }

// reply is a response in huma's form. Its body has no type of its own: the compiler would translate huma's code once for each, and huma
// would describe each when a server starts.
type reply struct {
	Status int
	Body   any
}

// bodies are the request and response types of an operation, for the document.
type bodies struct {
	method, path      string
	request, response reflect.Type
	optional          bool // of the request
}

// handle adds an operation with parameters P, a JSON body B and a response O.
func handle[P, B, O any](d *Door, op huma.Operation, answer func(c *call, p *P, body *B) (O, error)) {
	read := reader[B](d)
	huma.Register(d.api, op, func(ctx context.Context, p *P) (*reply, error) {
		c := d.call(ctx)
		defer c.releaseBody()
		body, err := read(c.exchange)
		if err == nil {
			var out O
			if out, err = answer(c, p, body); err == nil {
				return &reply{Status: c.status, Body: out}, nil
			}
		}
		c.fail(err)
		return nil, nil
	})
	_, optional := any(new(B)).(spare)
	d.bodies = append(d.bodies, bodies{op.Method, op.Path, reflect.TypeFor[B](), reflect.TypeFor[O](), optional})
}

// command adds an operation that responds with 204.
func command[P any](d *Door, op huma.Operation, do func(c *call, p *P) error) {
	op.DefaultStatus = http.StatusNoContent
	huma.Register(d.api, op, func(ctx context.Context, p *P) (*struct{}, error) {
		c := d.call(ctx)
		if err := do(c, p); err != nil {
			c.fail(err)
		}
		return nil, nil
	})
}

func (d *Door) call(ctx context.Context) *call {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return &call{Context: ctx, Service: d.as(ctx), exchange: x, status: http.StatusOK}
}

// reader returns the function that reads an operation's body.
func reader[B any](d *Door) func(*exchange) (*B, error) {
	t := reflect.TypeFor[B]()
	if t == reflect.TypeFor[none]() {
		return func(*exchange) (*B, error) { return new(B), nil }
	}
	decode := api.DecoderOf[B]()
	_, versioned := t.FieldByName("SpecVersion")
	return func(x *exchange) (*B, error) {
		if err := api.CheckJSON(x.r); err != nil {
			return nil, err
		}
		data, give, err := d.opts.Bodies.ReadBody(x.w, x.r, maxBody)
		if err != nil {
			return nil, err
		}
		x.done = give
		body := new(B)
		if _, ok := any(body).(spare); ok && len(bytes.TrimSpace(data)) == 0 {
			return body, nil
		}
		if err = decode(data, body); err != nil && versioned {
			err = cmp.Or(versionError(d, data), err)
		}
		return body, err
	}
}

// declare adds the bodies of an operation to the document.
func (b bodies) declare(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas
	for _, op := range operations(doc.Paths[b.path]) {
		if op.Method != b.method {
			continue
		}
		response := schemas.Schema(b.response, true, op.OperationID+"Response")
		if lists, ok := response.AdditionalProperties.(*huma.Schema); ok {
			lists.Nullable = false // as in loosen
		}
		op.Responses[strconv.Itoa(op.DefaultStatus)].Content["application/json"].Schema = response
		if b.request != reflect.TypeFor[none]() {
			schema := schemas.Schema(b.request, true, b.request.Name())
			op.RequestBody = &huma.RequestBody{Required: !b.optional, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
		}
	}
}
