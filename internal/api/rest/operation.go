package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// configure is huma without what it would serve itself, and with errors of our own.
func configure(version string) huma.Config {
	config := huma.DefaultConfig("Belljar", version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil
	config.Transformers = []huma.Transformer{ownErrors}
	return config
}

// adapter is a door as huma sees its router.
type adapter Door

var _ huma.Adapter = (*adapter)(nil)

// Handle adds an operation's route.
func (a *adapter) Handle(op *huma.Operation, next func(huma.Context)) {
	d := (*Door)(a)
	known := queryNames(op)
	admin := strings.HasPrefix(op.Path, api.Prefix+"/admin/")
	d.guarded(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		if admin && !api.CallerOf(r.Context()).Admin() {
			api.Fail(w, r, &belljar.Error{Code: belljar.CodeForbidden, Message: "this is for operators"})
			return
		}
		if _, err := api.Query(r, known...); err != nil {
			api.Fail(w, r, err)
			return
		}
		x := &exchange{w: w}
		x.r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		x.carrier = humago.NewContext(op, x.r, w)
		next(x)
	})
}

// ServeHTTP is there for huma's own tests only; a door answers through [Door.Register].
func (a *adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*Door)(a).Handler().ServeHTTP(w, r)
}

type exchangeKey struct{}

// carrier is huma's request, under a name that does not hide its method Context.
type carrier = huma.Context

// exchange is one request on its way through huma. A failure, wherever it happens, is answered by [api.Fail] and by
// nobody after that.
type exchange struct {
	carrier
	w      http.ResponseWriter
	r      *http.Request
	failed bool
	done   func() // gives back what the body took of the user's share; nil if there is none
}

// spent says that the request's body is not needed any more.
func (x *exchange) spent() {
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

// BodyWriter leads nowhere after a failure.
func (x *exchange) BodyWriter() io.Writer {
	if x.failed {
		return io.Discard
	}
	return x.carrier.BodyWriter()
}

// ownErrors tells what huma found wrong, with parameters, in our words.
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

// call is a request with who sent it.
type call struct {
	context.Context
	belljar.Service
	*exchange
	status int // of the answer, if it goes well
}

// none is the body of a request that has none.
type none struct{}

// spare is a body that may be left out: nothing in it is required, and none is an empty one.
type spare interface{ spare() }

// reply is an answer as huma wants it.
type reply[O any] struct {
	Status int
	Body   O
}

// handle adds an operation with parameters P, a JSON body B and an answer O.
func handle[P, B, O any](d *Door, op huma.Operation, answer func(c *call, p *P, body *B) (O, error)) {
	read := reader[B](d)
	huma.Register(d.api, op, func(ctx context.Context, p *P) (*reply[O], error) {
		c := d.call(ctx)
		defer c.spent()
		body, err := read(c.exchange)
		if err == nil {
			var out O
			if out, err = answer(c, p, body); err == nil {
				return &reply[O]{Status: c.status, Body: out}, nil
			}
		}
		c.fail(err)
		return nil, nil
	})
	declareBody[B](d, op)
}

// command adds an operation without an answer: 204.
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

// reader returns what reads an operation's body.
func reader[B any](d *Door) func(*exchange) (*B, error) {
	t := reflect.TypeFor[B]()
	if t == reflect.TypeFor[none]() {
		return func(*exchange) (*B, error) { return new(B), nil }
	}
	decode := api.DecoderOf[B]()
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
		return body, decode(data, body)
	}
}

// declareBody writes an operation's body into the document. It comes after the operation, for huma would otherwise read
// the body itself.
func declareBody[B any](d *Door, op huma.Operation) {
	t := reflect.TypeFor[B]()
	if t == reflect.TypeFor[none]() {
		return
	}
	doc := d.api.OpenAPI()
	schema := doc.Components.Schemas.Schema(t, true, t.Name())
	_, mayLack := any(new(B)).(spare)
	for _, declared := range operations(doc.Paths[op.Path]) {
		if declared.Method == op.Method {
			declared.RequestBody = &huma.RequestBody{Required: !mayLack, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
		}
	}
}

// writeJSON answers outside huma.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone needs no answer
}
