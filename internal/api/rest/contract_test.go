package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// contract is an HTTP transport that validates every response against the committed document. It rejects properties that
// the document does not have.
type contract struct {
	t     *testing.T
	next  http.RoundTripper
	doc   *openapi3.T
	paths []documented
	words *bodies
}

// bodies compiles the schema of each response once: openapi3filter compiles one for every response.
type bodies struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[*openapi3.SchemaRef]*jsonschema.Schema
}

func newBodies(doc *openapi3.T) (*bodies, error) {
	b := &bodies{compiler: jsonschema.NewCompiler(), compiled: map[*openapi3.SchemaRef]*jsonschema.Schema{}}
	b.compiler.DefaultDraft(jsonschema.Draft2020)
	b.compiler.AssertFormat()
	return b, b.add("openapi.json", doc)
}

// add adds a resource whose references are to the document's.
func (b *bodies) add(name string, part json.Marshaler) error {
	raw, err := part.MarshalJSON()
	if err != nil {
		return err
	}
	raw = bytes.ReplaceAll(raw, []byte(`"$ref":"#/`), []byte(`"$ref":"openapi.json#/`))
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return b.compiler.AddResource(name, whole)
}

func (b *bodies) schema(ref *openapi3.SchemaRef) (*jsonschema.Schema, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.compiled[ref] != nil {
		return b.compiled[ref], nil
	}
	name := fmt.Sprintf("body%d.json", len(b.compiled))
	if err := b.add(name, ref); err != nil {
		return nil, err
	}
	schema, err := b.compiler.Compile(name)
	if err == nil {
		b.compiled[ref] = schema
	}
	return schema, err
}

// check validates a JSON body of an operation's response.
func (b *bodies) check(op *openapi3.Operation, resp *http.Response, body []byte) error {
	documented := op.Responses.Status(resp.StatusCode)
	if documented == nil {
		documented = op.Responses.Default()
	}
	content := documented.Value.Content
	if len(content) == 0 {
		return nil
	}
	kind := content.Get(resp.Header.Get("Content-Type"))
	if kind == nil {
		return fmt.Errorf("the response has no content of type %q", resp.Header.Get("Content-Type"))
	}
	if kind.Schema == nil {
		return nil
	}
	schema, err := b.schema(kind.Schema)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

type documented struct {
	path  string
	names []string
	match *regexp.Regexp
}

func newContract(t *testing.T, next http.RoundTripper) *contract {
	t.Helper()
	c, err := strict()
	if err != nil {
		t.Fatal(err)
	}
	c.t, c.next = t, next
	return &c
}

// strict is shared by all contracts, and read once for all tests.
var strict = sync.OnceValues(func() (c contract, err error) {
	if c.doc, err = readDocument(); err != nil {
		return c, err
	}
	for name, s := range c.doc.Components.Schemas {
		if name != "Problem" && s.Value.Type.Is("object") && s.Value.AdditionalProperties.Schema == nil && len(s.Value.Properties) > 0 {
			no := false
			s.Value.AdditionalProperties.Has = &no
		}
	}
	if c.words, err = newBodies(c.doc); err != nil {
		return c, err
	}
	for path := range c.doc.Paths.Map() {
		d := documented{path: path}
		pattern := regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(path, func(param string) string {
			d.names = append(d.names, param[1:len(param)-1])
			if param == "{path}" {
				return "(.+)"
			}
			return "([^/]+)"
		})
		d.match = regexp.MustCompile("^" + pattern + "$")
		c.paths = append(c.paths, d)
	}
	slices.SortFunc(c.paths, func(a, b documented) int { return len(a.names) - len(b.names) })
	return c, nil
})

func readDocument() (*openapi3.T, error) {
	raw, err := os.ReadFile(specFile)
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(raw)
}

func loadDocument(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := readDocument()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func (c *contract) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return resp, nil // cut on purpose
	}
	c.check(r, resp, body)
	return resp, nil
}

func (c *contract) check(r *http.Request, resp *http.Response, body []byte) {
	for _, d := range c.paths {
		found := d.match.FindStringSubmatch(r.URL.EscapedPath())
		item := c.doc.Paths.Value(d.path)
		if found == nil || item.GetOperation(r.Method) == nil {
			continue
		}
		if strings.Contains(resp.Header.Get("Content-Encoding"), "gzip") {
			return
		}
		values := map[string]string{}
		for i, name := range d.names {
			values[name] = found[i+1]
		}
		input := &openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{
				Request: r, PathParams: values,
				Route: &routers.Route{Spec: c.doc, Path: d.path, PathItem: item, Method: r.Method, Operation: item.GetOperation(r.Method)},
			},
			Status: resp.StatusCode, Header: resp.Header,
			Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true, ExcludeResponseBody: true},
		}
		err := openapi3filter.ValidateResponse(context.Background(), input)
		// Only JSON has a useful schema.
		kind := resp.Header.Get("Content-Type")
		hasSchema := strings.HasSuffix(kind, "json") && !strings.Contains(kind, "ndjson") && !(strings.Contains(d.path, "{path}") && resp.StatusCode < 300)
		if err == nil && hasSchema && r.Method != http.MethodHead && resp.StatusCode != http.StatusNotModified {
			err = c.words.check(item.GetOperation(r.Method), resp, body)
		}
		if err != nil {
			c.t.Errorf("%s %s answers %d against the document: %v\n%.500s", r.Method, r.URL.Path, resp.StatusCode, err, body)
		}
		return
	}
}

// TestContractIsStrict proves that the transport detects violations.
func TestContractIsStrict(t *testing.T) {
	for name, body := range map[string]string{
		"a property too many": `{"status": "ok", "more": 1}`,
		"a property too few":  `{}`,
		"another type":        `{"status": 1}`,
		"another value":       `{"status": "fine"}`,
	} {
		inner := &testing.T{}
		c := newContract(t, nil)
		c.t = inner
		r, err := http.NewRequest("GET", "http://x/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		c.check(r, &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}}, []byte(body))
		if !inner.Failed() {
			t.Errorf("%s passes", name)
		}
	}
}
