package lsp

import (
	"context"
	"net/url"
	"strings"
	gosync "sync"

	"github.com/creachadair/jrpc2"
)

// peer is the editor at the other end.
type peer struct {
	rpc     *jrpc2.Server
	ctx     context.Context // of work in the background of requests
	after   gosync.WaitGroup
	parent  context.CancelCauseFunc
	client  clientCapabilities
	options initializationOptions
}

// background runs do alongside the requests, until the server ends.
func (s *peer) background(do func(context.Context)) {
	s.after.Add(1)
	go func() {
		defer s.after.Done()
		do(s.ctx)
	}()
}

// notify sends a notification. It ignores errors, because the reader of messages detects a client that is gone.
func (s *peer) notify(method string, params any) {
	_ = s.rpc.Notify(context.WithoutCancel(s.ctx), method, params)
}

// ask sends a request to the client and reads its result. It keeps the request open in jrpc2 after ctx ends, since jrpc2 would answer a
// later response with an error.
func (s *peer) ask(ctx context.Context, method string, params, result any) error {
	var answer *jrpc2.Response
	answered := make(chan error, 1)
	go func() {
		var err error
		answer, err = s.rpc.Callback(s.ctx, method, params)
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil || result == nil {
			return err
		}
		return answer.UnmarshalResult(result)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell shows a message to the user.
func (s *peer) tell(kind int, message string) {
	s.notify("window/showMessage", messageParams{Type: kind, Message: message})
}

// log writes to the editor's log.
func (s *peer) log(message string) {
	s.notify("window/logMessage", messageParams{Type: messageLog, Message: message})
}

// show opens a page in the browser if the editor can do that, else it shows the address.
func (s *peer) show(ctx context.Context, page string) {
	if s.client.Window.ShowDocument.Support {
		var shown struct {
			Success bool `json:"success"`
		}
		if err := s.ask(ctx, "window/showDocument", showDocument{URI: page, External: true}, &shown); err == nil && shown.Success {
			return
		}
	}
	s.tell(messageInfo, "Belljar: "+page)
}

// links returns URLs of a server's pages.
type links struct{ server string }

// webURL returns the URL of a run's page; "" for a service in this process, which has none.
func (s links) webURL(id string) string {
	if s.server == "" {
		return ""
	}
	return s.server + "/webui/sandbox/runs/" + url.PathEscape(id)
}

// streamURL returns the WebSocket URL of a run's log, for clients that send the server's credentials.
func (s links) streamURL(id string) string {
	if rest, ok := strings.CutPrefix(s.server, "http"); ok {
		return "ws" + rest + "/api/v1/sandbox/runs/" + url.PathEscape(id) + "/stream"
	}
	return ""
}

// artifactURL returns the URL of an artifact's download, for clients that send the server's credentials.
func (s links) artifactURL(id, name string) string {
	if s.server == "" {
		return ""
	}
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return s.server + "/api/v1/sandbox/runs/" + url.PathEscape(id) + "/artifacts/" + strings.Join(parts, "/")
}
