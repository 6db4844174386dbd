package workspace

import (
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/socket"
)

func (c *call) config() (any, error) {
	return struct {
		Root      string            `json:"workspace_root"`
		Mode      string            `json:"workspace_mode"`
		Providers []string          `json:"pty_providers"`
		Paths     map[string]string `json:"paths"`
		Isolated  bool              `json:"isolated"` // whether programs run in a sandbox
	}{c.Root, c.door.opts.Source.Mode(), c.door.opts.Templates.names(templatePTY), map[string]string{"files": "."}, c.door.opts.Source.Mode() != "local"}, nil
}

func (c *call) project() (any, error) {
	return struct {
		Root string `json:"root"`
	}{c.Root}, nil
}

// router is one part of the API.
type router struct {
	Name    string `json:"name"`
	Prefix  string `json:"prefix"`
	Enabled bool   `json:"enabled"`
}

func (c *call) capabilities() (any, error) {
	chat := len(c.door.opts.Templates.names(templateChat)) > 0
	pty := len(c.door.opts.Templates.names(templatePTY)) > 0
	return struct {
		Version  string          `json:"version"`
		Features map[string]bool `json:"features"`
		Routers  []router        `json:"routers"`
	}{c.door.opts.Version, map[string]bool{
		"files": true, "git": true, "pty": pty, "chat_claude_code": chat, "stream": chat, "approval": chat, "sandbox": c.door.opts.Source.Mode() != "local",
	}, []router{
		{"files", "/api", true}, {"git", "/api/git", true}, {"pty", "/ws", pty}, {"stream", "/ws", chat},
	}}, nil
}

// session is a terminal or a chat in GET /api/sessions.
type session struct {
	ID      string `json:"id"`
	Type    string `json:"type"` // pty | stream
	Alive   bool   `json:"alive"`
	Clients int    `json:"clients"`
	History int    `json:"history_count"` // entries of a chat's log
	Name    string `json:"name,omitempty"`
}

func (c *call) sessions() (any, error) {
	list := []session{}
	terminals, err := c.Engine.Terminals().List(c.r.Context(), c.Session)
	if err != nil {
		return nil, err
	}
	for _, t := range terminals {
		token, _ := c.token(socket.Claims{Kind: kindPTY, ID: t.ID})
		name := t.Name
		if strings.HasPrefix(name, pendingMark) {
			_, name, _ = strings.Cut(name, " ")
		}
		list = append(list, session{ID: token, Type: kindPTY, Alive: t.ExitCode == nil, Clients: t.Attached, Name: name})
	}
	chats, err := c.chats("", belljar.PhaseRunning)
	if err != nil {
		return nil, err
	}
	for _, run := range slices.Backward(chats) {
		token, _ := c.token(socket.Claims{Kind: kindChat, ID: run.Labels[chatLabel], Run: run.ID})
		if now, err := c.Engine.Runs().Get(c.r.Context(), run.ID); err == nil { // only this response has its last seq
			run = now
		}
		list = append(list, session{
			ID: token, Type: kindChat, Alive: true, Clients: c.door.attend(run.Labels[chatLabel], 0), History: int(run.LastSeq),
		})
	}
	return struct {
		Sessions []session `json:"sessions"`
	}{list}, nil
}

// newSession responds with a token whose first use opens a terminal or a chat.
func (c *call) newSession() (any, error) {
	token, _ := c.token(socket.Claims{Kind: kindPending, ID: belljar.NewID()})
	return struct {
		SessionID string `json:"session_id"`
	}{token}, nil
}
