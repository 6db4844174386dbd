package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Resources are named like this:
//
//	belljar://runs/{run_id}/output                    what a run printed
//	belljar://runs/{run_id}/artifacts/{path}          a file that it left
//	belljar://sandboxes/{sandbox_id}/files/{path}     a file of a sandbox
const scheme = "belljar"

func outputURI(run string) string { return scheme + "://runs/" + run + "/output" }

func artifactURI(run, path string) string {
	u := url.URL{Scheme: scheme, Host: "runs", Path: "/" + run + "/artifacts/" + path}
	return u.String()
}

// Bounds of resources.
const (
	maxResource = 8 << 20 // bytes of one
	mostListed  = 200     // artifacts in resources/list, the newest
)

// addTemplates says which resources can be read though they are not listed.
func (v *visit) addTemplates() {
	list := []*sdk.ResourceTemplate{
		{Name: "output", Title: "What a run printed", URITemplate: scheme + "://runs/{run_id}/output", MIMEType: "text/plain"},
		{Name: "artifact", Title: "A file that a run left", URITemplate: scheme + "://runs/{run_id}/artifacts/{+path}"},
	}
	if v.terms.InMode() == belljar.ToolsCode {
		list = append(list, &sdk.ResourceTemplate{Name: "file", Title: "A file of a sandbox", URITemplate: scheme + "://sandboxes/{sandbox_id}/files/{+path}"})
	}
	for _, t := range list {
		v.server.AddResourceTemplate(t, v.read)
	}
}

// addResource lists an artifact, in place of the oldest if there are too many.
func (c *call) addResource(uri string, a belljar.Artifact) {
	c.mu.Lock()
	c.artifacts = append(c.artifacts, uri)
	oldest := ""
	if len(c.artifacts) > mostListed {
		oldest, c.artifacts = c.artifacts[0], c.artifacts[1:]
	}
	c.mu.Unlock()
	if oldest != "" {
		c.server.RemoveResources(oldest)
	}
	c.server.AddResource(&sdk.Resource{URI: uri, Name: a.Path, MIMEType: mediaType(a.Path), Size: a.Size}, c.visit.read)
}

// read answers resources/read.
func (v *visit) read(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	header := http.Header{}
	if req.Extra != nil && req.Extra.Header != nil {
		header = req.Extra.Header
	}
	c := &call{Context: ctx, Service: v.client.Service(header.Get(api.RequestIDHeader), header.Get(traceHeader)), visit: v, session: req.Session}
	contents, err := c.resource(req.Params.URI)
	if err != nil {
		return nil, v.rpcError(err)
	}
	contents.URI = req.Params.URI
	if contents.Text == "" && contents.Blob == nil {
		contents.Blob = []byte{} // clients take nothing that has neither text nor blob
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
}

// rpcError is an error as a JSON-RPC answer has it.
func (v *visit) rpcError(err error) error {
	e := api.Public(err)
	if e.Code == belljar.CodeInternal {
		v.kit.log.Error("resource could not be read", "visit", v.id, "err", err)
	}
	data, failed := json.Marshal(e)
	if failed != nil {
		data = nil
	}
	message := e.Message
	if e.Hint != "" {
		message += "; " + e.Hint
	}
	return &jsonrpc.Error{Code: int64(e.Code.Info().JSONRPC), Message: message, Data: data}
}

// resource reads what a URI names.
func (c *call) resource(uri string) (*sdk.ResourceContents, error) {
	none := &belljar.Error{Code: belljar.CodeNotFound, Message: fmt.Sprintf("resource %.200q does not exist", uri), Details: map[string]any{"uri": uri}}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != scheme {
		return nil, none
	}
	parts := strings.SplitN(strings.TrimPrefix(u.Path, "/"), "/", 3)
	if len(parts) < 2 || !belljar.ValidID(parts[0]) {
		return nil, none
	}
	switch {
	case u.Host == "runs" && parts[1] == "output" && len(parts) == 2:
		run, err := c.ownRun(parts[0], none)
		if err != nil {
			return nil, err
		}
		return c.printed(run)
	case u.Host == "runs" && parts[1] == "artifacts" && len(parts) == 3:
		if _, err := c.ownRun(parts[0], none); err != nil {
			return nil, err
		}
		a, body, err := c.Artifacts().Open(c, parts[0], parts[2], 0)
		if err != nil {
			return nil, err
		}
		return contents(parts[2], a.Size, body)
	case u.Host == "sandboxes" && parts[1] == "files" && len(parts) == 3:
		if err := c.mayUse(parts[0], false); err != nil {
			return nil, err
		}
		entry, body, err := c.Files().Read(c, parts[0], parts[2], 0, maxResource+1)
		if err != nil {
			return nil, err
		}
		return contents(parts[2], entry.Size, body)
	}
	return nil, none
}

// ownRun is a run of the visit, or one in a session that it may use.
func (c *call) ownRun(id string, none error) (belljar.Run, error) {
	run, err := c.Runs().Get(c, id)
	switch {
	case belljar.CodeOf(err) == belljar.CodeNotFound:
		return run, none
	case err != nil, run.Labels[label] == c.id:
		return run, err
	case run.SessionID != "" && c.mayUse(run.SessionID, true) == nil:
		return run, nil
	}
	return run, none
}

// printed is what a run has printed so far, both streams in order.
func (c *call) printed(run belljar.Run) (*sdk.ResourceContents, error) {
	part, err := api.ReadOutput(c, c.Runs(), run, api.OutputQuery{Bytes: maxResource})
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, f := range part.Frames {
		b.WriteString(readable(f.Output))
	}
	if part.Truncated || !part.Done && run.Phase.Terminal() {
		b.WriteString("\n[there was more, which is not shown]\n")
	}
	return &sdk.ResourceContents{MIMEType: "text/plain", Text: b.String()}, nil
}

// contents is a file as a resource: text where it is text.
func contents(name string, size int64, body io.ReadCloser) (*sdk.ResourceContents, error) {
	defer func() { _ = body.Close() }() // it has been read
	if size > maxResource {
		return nil, &belljar.Error{
			Code: belljar.CodeTooLarge, Message: fmt.Sprintf("%.200q has %d bytes, a resource has %d at most", name, size, maxResource),
			Details: map[string]any{"maximum": maxResource, "provided": size}, Hint: "read a part of it in a sandbox, or fetch it over the REST API",
		}
	}
	data, err := io.ReadAll(io.LimitReader(body, maxResource))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %q", name), err)
	}
	c := &sdk.ResourceContents{MIMEType: mediaType(name)}
	if utf8.Valid(data) && c.MIMEType != "image/png" {
		c.Text = string(data)
	} else {
		c.Blob = data
	}
	return c, nil
}
