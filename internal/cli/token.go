package cli

import (
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/quantity"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/local"
)

// tokenCommands are belljar token ….
type tokenCommands struct {
	Create tokenCreate `cmd:"" help:"Make an API key and print it."`
	List   tokenList   `cmd:"" help:"List the API keys and sign-ins."`
	Revoke tokenRevoke `cmd:"" help:"Revoke API keys and sign-ins."`

	LoginLink tokenLink `cmd:"" name:"login-link" help:"Print a link that opens the web page and signs in once."`
}

// tokenCreate is belljar token create.
type tokenCreate struct {
	User  string            `required:"" placeholder:"ID" help:"The user that the key belongs to."`
	Admin bool              `help:"Grant the operator role."`
	Name  string            `empty:"" placeholder:"TEXT" help:"A name for the key, such as what it is for."`
	TTL   *quantity.Seconds `name:"ttl" placeholder:"TIME" help:"Life of the key: 720h (default: no limit)."`
	JSON  bool              `name:"json" help:"Print one JSON object."`
}

// Run creates a key.
func (t *tokenCreate) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		spec := belljar.TokenSpec{UserID: t.User, Name: t.Name, TTLSec: value(t.TTL), Role: belljar.RoleUser}
		if t.Admin {
			spec.Role = belljar.RoleAdmin
		}
		made, err := s.Admin().CreateToken(ctx, spec)
		if err != nil {
			return err
		}
		if t.JSON {
			return show.JSON(c.stdout, made)
		}
		c.aside("this key is not shown again")
		return show.Lines(c.stdout, []string{made.Secret})
	})
}

// tokenList is belljar token list.
type tokenList struct {
	JSON bool `name:"json" help:"Print one JSON array."`
}

// Run lists keys.
func (t *tokenList) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		list, err := s.Admin().Tokens(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		return show.List(c.stdout, t.JSON, list, "ID KEY USER ROLE NAME AGE USED STATE", func(k belljar.Token) []string {
			used := "never"
			if k.LastUsedAt != nil {
				used = show.RoughDuration(now.Sub(*k.LastUsedAt)) + " ago"
			}
			return []string{k.ID, k.Prefix + "…", k.UserID, string(k.Role), k.Name, show.RoughDuration(now.Sub(k.CreatedAt)), used, show.TokenState(k, now)}
		})
	})
}

// tokenRevoke is belljar token revoke.
type tokenRevoke struct {
	IDs  []string `arg:"" name:"id" help:"The ids, as token list shows them, or the beginnings of them."`
	JSON bool     `name:"json" help:"Print the ids as one JSON array."`
}

// Run revokes the given keys and reports those that it cannot revoke.
func (t *tokenRevoke) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		ids, err := mistake.Each(t.IDs, func(prefix string) (string, error) {
			id, err := ident.Token(ctx, s, prefix)
			if err == nil {
				err = s.Admin().RevokeToken(ctx, id)
			}
			return id, err
		})
		return c.printDone(t.JSON, ids, err)
	})
}

// tokenLink is belljar token login-link.
type tokenLink struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// Run makes a one-time code for the user of the command line's key.
func (t *tokenLink) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		server, ok := s.(*local.Engine).Service.(*client.Client)
		if !ok {
			return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "no server given", Hint: "set BELLJAR_SERVER"}
		}
		made, err := server.LoginLink(ctx)
		if err != nil {
			return err
		}
		if t.JSON {
			return show.JSON(c.stdout, made)
		}
		if made.URL == "" {
			return &belljar.Error{Code: belljar.CodeNotFound, Message: "the server has no web page", Hint: "it was started with SANDBOX_WEBUI=false"}
		}
		c.aside("this link signs in once, within 5 minutes")
		return show.Lines(c.stdout, []string{made.URL})
	})
}
