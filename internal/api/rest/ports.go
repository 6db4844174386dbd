package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// PortList lists the ports that programs in a session listen on.
type PortList struct {
	Items []belljar.Port `json:"items"`
}

// addPorts adds the operations about ports.
func addPorts(d *Door) {
	handle(d, huma.Operation{
		OperationID: "list-ports", Method: http.MethodGet, Path: api.Prefix + "/sessions/{session_id}/ports", Tags: []string{"ports"},
		Summary:     "List the ports that programs in a session listen on",
		Description: "At most 256, in order. A program must listen on 127.0.0.1, on ::1 or on all addresses to be reached. Connect to a port over the WebSocket …/ports/{port}/tunnel.",
	}, func(c *call, p *sessionPath, _ *none) (PortList, error) {
		list, err := c.Ports().List(c, p.ID)
		return PortList{filled(list)}, err
	})
}

// PreviewList is a session's previews.
type PreviewList struct {
	Items []belljar.Preview `json:"items"`
}

type previewPath struct {
	ID    string `path:"session_id" doc:"The session's id"`
	Label string `path:"label" doc:"The preview's label"`
}

// addPreviews adds the operations about previews.
func addPreviews(d *Door) {
	const of = api.Prefix + "/sessions/{session_id}/previews"
	handle(d, huma.Operation{
		OperationID: "create-preview", Method: http.MethodPost, Path: of, Tags: []string{"ports"},
		Summary: "Make a host name at which browsers reach a port",
		Description: "Needs SANDBOX_PREVIEW_DOMAIN on the server. A private preview, the default, is opened once with token_url, which sets a cookie and leads to url. " +
			"A public one needs SANDBOX_PREVIEW_PUBLIC. A preview ends with its ttl_sec, its session, and the server.",
	}, func(c *call, p *sessionPath, body *belljar.PreviewSpec) (belljar.Preview, error) {
		made, err := c.Ports().Preview(c, p.ID, *body)
		return addressed(d, c.r, made), err
	})
	handle(d, huma.Operation{
		OperationID: "list-previews", Method: http.MethodGet, Path: of, Tags: []string{"ports"},
		Summary: "List a session's previews", Description: "Oldest first, without their tokens.",
	}, func(c *call, p *sessionPath, _ *none) (PreviewList, error) {
		list, err := c.Ports().Previews(c, p.ID)
		for i := range list {
			list[i] = addressed(d, c.r, list[i])
		}
		return PreviewList{filled(list)}, err
	})
	command(d, huma.Operation{
		OperationID: "revoke-preview", Method: http.MethodDelete, Path: of + "/{label}", Tags: []string{"ports"},
		Summary: "Revoke a preview", Description: "Its open connections end at once.",
	}, func(c *call, p *previewPath) error {
		return c.Ports().Revoke(c, p.ID, p.Label)
	})
}

// addressed adds the addresses of a preview.
func addressed(d *Door, r *http.Request, p belljar.Preview) belljar.Preview {
	if d.opts.PreviewURL == nil || p.Label == "" {
		return p
	}
	if p.URL = d.opts.PreviewURL(r, p.Label); p.Token != "" {
		p.TokenURL = p.URL + "?belljar_token=" + p.Token
	}
	return p
}

// declareTunnel adds the WebSocket of package tunnel.
func declareTunnel(doc *huma.OpenAPI) {
	doc.AddOperation(&huma.Operation{
		OperationID: "open-tunnel", Method: http.MethodGet, Path: api.Prefix + "/sessions/{session_id}/ports/{port}/tunnel", Tags: []string{"ports"},
		Security: []map[string][]string{{"key": {}}, {"bearer": {}}, {"token": {}}},
		Summary:  "Connect to a port over a WebSocket",
		Description: "A TCP connection with the program that listens there. Binary messages are its bytes, in both directions. The server's first message is the text " +
			"`{\"type\":\"open\"}`. The text `{\"type\":\"eof\"}` from either side ends that side's direction; the other stays open. Close codes: 1000 both directions have ended, " +
			"1001 server shutting down, 1008 a message that is not understood or a refused request, 1011 server failed, 1013 cannot connect now, 4001 authentication failed, " +
			"4004 no such session, it has ended, or no program listens there, 4012 the program reset the connection. Before a code other than 1000, 1001 and 4012 comes a text `{\"type\":\"error\",\"code\":…,\"message\":…}`.",
		Parameters: []*huma.Param{
			inPath("session_id", "The session's id"),
			{Name: "port", In: "path", Required: true, Description: "The port", Schema: &huma.Schema{Type: "integer"}},
			inQuery("token", "A ticket", &huma.Schema{Type: "string"}),
		},
		Responses: map[string]*huma.Response{"101": {Description: "The connection begins"}},
	})
}
