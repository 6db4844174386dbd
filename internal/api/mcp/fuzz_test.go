//go:build linux

package mcp_test

import (
	"net/http"
	"testing"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/mcp"
	"github.com/belljar/belljar/test/apitest"
)

// whole returns the door over an engine that runs nothing, and its routes.
func whole(f *testing.F) (http.Handler, []apitest.Route) {
	f.Helper()
	kit := mcp.New(mcp.Options{Version: "test"})
	door, err := mcp.NewDoor(mcp.DoorOptions{Kit: kit, Engine: apitest.Still{}, Auth: apitest.Callers(), Secret: secret, MaxSessions: 4})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = door.Close() }) // it never fails
	return apitest.Handler(f, api.EdgeOptions{}, door), []apitest.Route{
		{Method: "POST", Path: mcp.Path, Body: `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}`},
		{Method: "POST", Path: mcp.Path, Body: modernCall("sandbox_run", `{"code": "1"}`)},
		{Method: "POST", Path: mcp.Path + "?mode=code", Body: modernCall("sandbox_open", `{}`)},
		{Method: "GET", Path: mcp.Path}, {Method: "DELETE", Path: mcp.Path}, {Method: "PUT", Path: mcp.Path},
	}
}

// modernCall is a call of a tool in the protocol without sessions.
func modernCall(tool, arguments string) string {
	return `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "` + tool + `", "arguments": ` + arguments + `, "_meta": {` +
		`"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}}}}`
}

func FuzzQuery(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzQuery(f, h, routes, "mode=code&workflow=w", "tools=sandbox_run&timeout=5s", "cpu=0.5&memory_mb=64&wait=1e300", "capture=a&capture=b")
}

func FuzzHeader(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzHeader(f, h, routes, "application/json, text/event-stream", "2026-07-28", "tools/call")
}

func FuzzBody(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzBody(f, h, routes, modernCall("sandbox.run", `{"base_image": "host", "command": ["true"]}`), modernCall("sandbox_fs_read", `{"sandbox_id": "`+apitest.ID+`", "path": "a"}`),
		`[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]`, `{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}`, `{"jsonrpc": "2.0", "id": 1e400, "method": "x"}`)
}
