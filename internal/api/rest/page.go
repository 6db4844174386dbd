package rest

import (
	"bytes"
	_ "embed" // the page's files
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// pagePolicy lets the page load its own two files only.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page serves the document as HTML, without external resources.
func (d *Door) page(doc func() *huma.OpenAPI) error {
	tmpl, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return err
	}
	html := sync.OnceValues(func() ([]byte, error) {
		var b bytes.Buffer
		err := tmpl.Execute(&b, manualOf(doc()))
		return b.Bytes(), err
	})
	d.open("GET /docs", static("text/html; charset=utf-8", html))
	d.open("GET /docs/page.css", static("text/css; charset=utf-8", func() ([]byte, error) { return []byte(pageCSS), nil }))
	d.open("GET /docs/page.js", static("text/javascript; charset=utf-8", func() ([]byte, error) { return []byte(pageJS), nil }))
	return nil
}

func static(media string, content func() ([]byte, error)) http.HandlerFunc {
	serve := served(media, content)
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", pagePolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		serve(w, r)
	}
}

// manual is the data of the HTML page.
type manual struct {
	Version string
	About   []string // paragraphs
	Groups  []group
	Schemas []sheet
	Errors  []belljar.CodeInfo
}

type group struct {
	Name, About string
	Operations  []entry
}

type entry struct {
	ID, Method, Path, Summary, About string
	Parameters                       []field
	Body                             []use
	Answers                          []use
}

// use is a place where a schema is used: a request body or a response.
type use struct{ Of, About, Type, Schema string }

// sheet is a schema with its fields.
type sheet struct {
	Name, About string
	Fields      []field
}

type field struct {
	Name, Where, Type, Schema, About string
	Values                           []string
	Required                         bool
}

func manualOf(doc *huma.OpenAPI) manual {
	m := manual{Version: doc.Info.Version, About: strings.Split(strings.ReplaceAll(about, "`", ""), "\n\n"), Errors: belljar.Table()}
	for _, tag := range doc.Tags {
		g := group{Name: tag.Name, About: tag.Description}
		for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
			for _, op := range operations(doc.Paths[path]) {
				if slices.Contains(op.Tags, tag.Name) {
					g.Operations = append(g.Operations, entryOf(path, op))
				}
			}
		}
		m.Groups = append(m.Groups, g)
	}
	schemas := doc.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := sheet{Name: name, About: schemas[name].Description}
		for _, prop := range slices.Sorted(maps.Keys(schemas[name].Properties)) {
			s.Fields = append(s.Fields, fieldOf(prop, "", schemas[name].Properties[prop], "", slices.Contains(schemas[name].Required, prop)))
		}
		m.Schemas = append(m.Schemas, s)
	}
	return m
}

func entryOf(path string, op *huma.Operation) entry {
	e := entry{ID: op.OperationID, Method: op.Method, Path: path, Summary: op.Summary, About: strings.ReplaceAll(op.Description, "`", "")}
	for _, p := range op.Parameters {
		e.Parameters = append(e.Parameters, fieldOf(p.Name, p.In, p.Schema, p.Description, p.Required))
	}
	if op.RequestBody != nil {
		e.Body = usesOf("", "", op.RequestBody.Content)
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if answer := op.Responses[status]; answer.Ref == "" {
			e.Answers = append(e.Answers, usesOf(status, answer.Description, answer.Content)...)
		}
	}
	return e
}

func usesOf(of, about string, content map[string]*huma.MediaType) []use {
	if len(content) == 0 {
		return []use{{Of: of, About: about}}
	}
	var uses []use
	for _, media := range slices.Sorted(maps.Keys(content)) {
		uses = append(uses, use{Of: of, About: about, Type: media, Schema: schemaName(content[media].Schema)})
	}
	return uses
}

func fieldOf(name, where string, s *huma.Schema, about string, required bool) field {
	f := field{Name: name, Where: where, Type: typeName(s), Schema: schemaName(s), About: about, Required: required}
	if f.About == "" {
		f.About = s.Description
	}
	if s.Items != nil {
		f.Schema = schemaName(s.Items)
	}
	for _, v := range s.Enum {
		f.Values = append(f.Values, fmt.Sprint(v))
	}
	return f
}

func schemaName(s *huma.Schema) string {
	if s == nil {
		return ""
	}
	return strings.TrimPrefix(s.Ref, "#/components/schemas/")
}

func typeName(s *huma.Schema) string {
	switch {
	case s.Ref != "":
		return schemaName(s)
	case s.Items != nil:
		return "list of " + typeName(s.Items)
	case s.Type == "":
		return "any"
	case s.Format == "date-time":
		return "time"
	case s.ContentEncoding != "":
		return s.ContentEncoding
	case s.Nullable:
		return s.Type + " or null"
	}
	return s.Type
}
