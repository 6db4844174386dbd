package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// PortList is the ports that programs in a session listen on.
type PortList struct {
	Items []belljar.Port `json:"items"`
}

func (d *Door) ports() {
	handle(d, huma.Operation{
		OperationID: "list-ports", Method: http.MethodGet, Path: api.Prefix + "/sessions/{session_id}/ports", Tags: []string{"ports"},
		Summary:     "List the ports that programs in a session listen on",
		Description: "At most 256, in order. A program must listen on 127.0.0.1, on ::1 or on all addresses to be reached. Connect to a port over the WebSocket …/ports/{port}/tunnel.",
	}, func(c *call, p *sessionPath, _ *none) (PortList, error) {
		list, err := c.Ports().List(c, p.ID)
		return PortList{filled(list)}, err
	})
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
