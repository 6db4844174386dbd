package terminal

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/socket"
)

// openNew opens a terminal in the session of the path.
func (d *Door) openNew(ctx context.Context, service belljar.Service, r *http.Request, q url.Values) (*attachment, error) {
	return openIn(ctx, service, r.PathValue("session_id"), q)
}

// openIn opens a terminal in a session and attaches to it.
func openIn(ctx context.Context, service belljar.Service, sessionID string, q url.Values) (*attachment, error) {
	spec, err := specOf(q)
	if err != nil {
		return nil, err
	}
	if sessionID == "" {
		return nil, errNotFound()
	}
	made, err := service.Terminals().Open(ctx, sessionID, spec)
	if err != nil {
		return nil, err
	}
	a, err := service.Terminals().Attach(ctx, made.ID)
	if err != nil {
		return nil, err
	}
	return &attachment{Attachment: a, history: true}, nil
}

// reattach attaches to the terminal of a token or a terminal id.
func (d *Door) reattach(ctx context.Context, service belljar.Service, r *http.Request, q url.Values) (*attachment, error) {
	values, err := read(q)
	if err != nil {
		return nil, err
	}
	resume, err1 := flag(values, "resume", true)
	forceNew, err2 := flag(values, "force_new", false)
	err = shellOnly(values)
	for _, e := range []error{err1, err2} {
		if e != nil {
			err = e
		}
	}
	switch {
	case err != nil:
		return nil, err
	case values["session_id"] != "" && values["terminal_id"] != "":
		return nil, invalid("terminal_id", "session_id and terminal_id exclude each other")
	case values["session_id"] == "" && values["terminal_id"] == "":
		return nil, invalid("session_id", "session_id is missing")
	}
	id, session := values["terminal_id"], ""
	if token := values["session_id"]; token != "" {
		c, ok := d.tokens.Read(token, socket.Claims{Kind: tokenKind, User: api.CallerOf(r.Context()).ID})
		if !ok {
			return nil, errNotFound()
		}
		id, session = c.ID, c.Session
	}
	if forceNew {
		if session == "" {
			t, err := service.Terminals().Get(ctx, id)
			if err != nil {
				return nil, err
			}
			session = t.SessionID
		}
		return openIn(ctx, service, session, q)
	}
	if err := checkSize(values); err != nil {
		return nil, err
	}
	a, err := service.Terminals().Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	if values["cols"] != "" {
		cols, _ := strconv.Atoi(values["cols"])
		rows, _ := strconv.Atoi(values["rows"])
		_ = a.Resize(cols, rows) // checked above; fails only if the terminal has ended
	}
	return &attachment{Attachment: a, resumed: true, history: resume}, nil
}

// specOf parses the parameters of a new terminal.
func specOf(q url.Values) (spec belljar.TerminalSpec, err error) {
	values, err := read(q)
	if err != nil {
		return spec, err
	}
	if err := shellOnly(values); err != nil {
		return spec, err
	}
	spec.Name, spec.Command = values["session_name"], q["command"]
	if spec.Shared, err = flag(values, "shared", false); err != nil {
		return spec, err
	}
	for _, side := range []struct {
		name string
		into *int
	}{{"cols", &spec.Cols}, {"rows", &spec.Rows}} {
		if values[side.name] == "" {
			continue
		}
		if *side.into, err = strconv.Atoi(values[side.name]); err != nil || *side.into == 0 {
			return spec, invalid(side.name, "%s %.40q is not a number from 1 to %d", side.name, values[side.name], 1000)
		}
	}
	return spec, spec.Validate()
}

// checkSize checks the size in a request to reattach: it has both sides, or none.
func checkSize(values map[string]string) error {
	if values["cols"] == "" && values["rows"] == "" {
		return nil
	}
	cols, err1 := strconv.Atoi(values["cols"])
	rows, err2 := strconv.Atoi(values["rows"])
	if err1 != nil || err2 != nil {
		return invalid("cols", "cols and rows are not both numbers")
	}
	return belljar.CheckTerminalSize(cols, rows)
}

// shellOnly rejects the other providers of the workspace API; here command names the program.
func shellOnly(values map[string]string) error {
	if p := values["provider"]; p != "" && p != "shell" {
		e := invalid("provider", "provider %.40q is not known", p)
		e.Details["supported"], e.Hint = []string{"shell"}, "name a program with command="
		return e
	}
	return nil
}

// parameters are the query parameters of both routes. token is for clients that cannot set headers.
func parameters() []string {
	return []string{
		"session_id", "terminal_id", "resume", "force_new", "provider", "session_name", "cols", "rows", "shared", "command", "token",
	}
}

// read returns the parameters of a query. It refuses unknown parameters, and repeated ones other than command.
func read(q url.Values) (map[string]string, error) {
	values := map[string]string{}
	for name, given := range q {
		switch {
		case !slices.Contains(parameters(), name):
			return nil, invalid(name, "unknown parameter %.40q", name)
		case len(given) > 1 && name != "command":
			return nil, invalid(name, "%s is given %d times", name, len(given))
		}
		values[name] = given[0]
	}
	return values, nil
}

// flag parses a boolean parameter; fallback is its default.
func flag(values map[string]string, name string, fallback bool) (bool, error) {
	text := values[name]
	if text == "" {
		return fallback, nil
	}
	is, err := strconv.ParseBool(text)
	if err != nil {
		return false, invalid(name, "%s %.40q is neither true nor false", name, text)
	}
	return is, nil
}

func invalid(field, format string, args ...any) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Details: map[string]any{"field": field},
	}
}

func errNotFound() error {
	return &belljar.Error{Code: belljar.CodeNotFound, Message: "session not found"}
}
