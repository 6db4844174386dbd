package cli

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/local"
)

// open returns the service for a command: the server from the command line, or this machine. name is the runtime to use, "" for
// the default. choose means that an isolation class or a trust level will select it.
func (c *console) open(name string, choose bool) (*local.Engine, error) {
	if c.server.given() {
		return c.connect()
	}
	return c.machine.Open(local.Needs{Runtime: name, Choose: choose, Image: c.image, Note: c.Note})
}

// connect returns the server from the command line.
func (c *console) connect() (*local.Engine, error) {
	if !c.server.given() {
		return nil, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "no server given",
			Hint: "start one with belljar serve, then set BELLJAR_SERVER",
		}
	}
	opts := client.Options{URL: c.server.url, Source: cmp.Or(c.source, "cli"), Broken: func(err error, left time.Duration) {
		c.Note("%v; trying again for %.0f s", field.InFlags(err), left.Seconds())
	}, Asked: c.noteAsked}
	if strings.Count(c.server.key, ".") == 2 { // a JWT
		opts.Bearer = c.server.key
	} else {
		opts.APIKey = c.server.key
	}
	remote, err := client.New(opts)
	if err != nil {
		return nil, err
	}
	return &local.Engine{
		Service: remote, Remote: true, Close: remote.Close,
		Kill: func(_ context.Context, id string) error {
			return &belljar.Error{Code: belljar.CodeForbidden, Message: "run " + id + " is the server's to kill"}
		},
	}, nil
}
