package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// The URIs of resources:
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

// Limits of resources.
const (
	maxResource = 8 << 20 // bytes of one
	maxListed   = 200     // artifacts in resources/list, the newest
)

// addTemplates describes the resources that can be read but are not listed.
func (s *clientSession) addTemplates() {
	add := func(name, title, path, media string) {
		s.server.AddResourceTemplate(&sdk.ResourceTemplate{Name: name, Title: title, URITemplate: scheme + "://" + path, MIMEType: media}, s.readResource)
	}
	add("output", "What a run printed", "runs/{run_id}/output", "text/plain")
	add("artifact", "A file that a run left", "runs/{run_id}/artifacts/{+path}", "")
	if s.terms.InMode() == belljar.ToolsCode {
		add("file", "A file of a sandbox", "sandboxes/{sandbox_id}/files/{+path}", "")
	}
}

// addResource lists an artifact, and removes the oldest from the list if it is full.
func (c *call) addResource(uri string, a belljar.Artifact) {
	c.session.mu.Lock()
	if slices.Contains(c.session.artifacts, uri) {
		c.session.mu.Unlock()
		return
	}
	c.session.artifacts = append(c.session.artifacts, uri)
	oldest := ""
	if len(c.session.artifacts) > maxListed {
		oldest, c.session.artifacts = c.session.artifacts[0], c.session.artifacts[1:]
	}
	c.session.mu.Unlock()
	if oldest != "" {
		c.session.server.RemoveResources(oldest)
	}
	c.session.server.AddResource(&sdk.Resource{URI: uri, Name: a.Path, MIMEType: mediaType(a.Path), Size: a.Size}, c.session.readResource)
}

// readResource answers resources/read.
func (s *clientSession) readResource(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	c := s.newCall(ctx, req)
	contents, err := c.resource(req.Params.URI)
	if err != nil {
		e := api.Public(err)
		if e.Code == belljar.CodeInternal {
			s.kit.log.Error("resource could not be read", "mcp_session_id", s.id, "err", err)
		}
		data, _ := json.Marshal(e) // nil if it fails
		message := e.Message
		if e.Hint != "" {
			message += "; " + e.Hint
		}
		return nil, &jsonrpc.Error{Code: c.errorCode(e.Code), Message: message, Data: data}
	}
	contents.URI = req.Params.URI
	if contents.Text == "" && contents.Blob == nil {
		contents.Blob = []byte{} // clients refuse contents with neither text nor blob
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
}

// errorCode returns the number of an error as the protocol has it. From 2026-07-28 on it reserves -32020 to -32099 for itself.
func (c *call) errorCode(code belljar.Code) int64 {
	number := int64(code.Info().JSONRPC)
	switch sessionless := c.version >= firstSessionless; {
	case code == belljar.CodeNotFound && !sessionless:
		return -32002
	case code == belljar.CodeNotFound:
		return jsonrpc.CodeInvalidParams
	case sessionless && number <= -32020 && number >= -32099:
		return jsonrpc.CodeInternalError
	}
	return number
}

// resource returns the contents of a URI.
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
		return c.runOutput(run)
	case u.Host == "runs" && parts[1] == "artifacts" && len(parts) == 3:
		if _, err := c.ownRun(parts[0], none); err != nil {
			return nil, err
		}
		a, body, err := c.service.Artifacts().Open(c, parts[0], parts[2], 0)
		if err != nil {
			return nil, err
		}
		return c.contents(parts[2], a.Size, body)
	case u.Host == "sandboxes" && parts[1] == "files" && len(parts) == 3:
		if err := c.authorize(parts[0], false); err != nil {
			return nil, err
		}
		entry, body, err := c.service.Files().Read(c, parts[0], parts[2], 0, maxResource+1)
		if err != nil {
			return nil, err
		}
		return c.contents(parts[2], entry.Size, body)
	}
	return nil, none
}

// ownRun returns a run of the client session, or one in a sandbox that it may use; else the error none.
func (c *call) ownRun(id string, none error) (belljar.Run, error) {
	run, err := c.service.Runs().Get(c, id)
	switch {
	case belljar.CodeOf(err) == belljar.CodeNotFound:
		return run, none
	case err != nil, run.Labels[label] == c.session.id:
		return run, err
	case run.SessionID != "" && c.authorize(run.SessionID, true) == nil:
		return run, nil
	}
	return run, none
}

// runOutput returns what a run has printed so far, both streams in order.
func (c *call) runOutput(run belljar.Run) (*sdk.ResourceContents, error) {
	var part api.OutputPart
	for most := 256 << 10; ; most = maxResource { // usual outputs are small, and do not wait for the memory of a large one
		release, err := c.reserve(int64(most))
		if err == nil {
			part, err = api.ReadOutput(c, c.service.Runs(), run, api.OutputQuery{Bytes: most})
		}
		if err != nil {
			return nil, err
		}
		if most == maxResource || part.Next >= run.LastSeq {
			break
		}
		release()
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

// contents returns a file as a resource, as text if it is UTF-8. It closes body.
func (c *call) contents(name string, size int64, body io.ReadCloser) (*sdk.ResourceContents, error) {
	defer func() { _ = body.Close() }() // all of it was read
	if size > maxResource {
		return nil, &belljar.Error{
			Code: belljar.CodeTooLarge, Message: fmt.Sprintf("%.200q has %d bytes, a resource has %d at most", name, size, maxResource),
			Details: map[string]any{"maximum": maxResource, "provided": size}, Hint: "read a part of it in a sandbox, or fetch it over the REST API",
		}
	}
	if _, err := c.reserve(size); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(body, size)) // a file may grow meanwhile
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %q", name), err)
	}
	r := &sdk.ResourceContents{MIMEType: mediaType(name)}
	if utf8.Valid(data) && r.MIMEType != "image/png" {
		r.Text = string(data)
		if r.MIMEType == unknownType { // hosts take it at its word, and do not show the text
			r.MIMEType = "text/plain"
		}
	} else {
		r.Blob = data
	}
	return r, nil
}
