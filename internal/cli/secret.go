package cli

import (
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/secret"
	"github.com/belljar/belljar/internal/cli/show"
)

// secretFlags are the secrets of a run or session.
type secretFlags struct {
	Secret []string `group:"input" sep:"none" placeholder:"NAME[=SOURCE]" help:"Put a secret into /run/secrets/NAME. NAME alone is your variable of that name, NAME=@FILE a file, NAME=from:STORED a stored secret. Repeatable."`
	Broker []string `group:"input" sep:"none" placeholder:"NAME=HOST" help:"Keep the --secret NAME out of the sandbox: Belljar adds it to HTTPS requests to HOST, as Authorization: Bearer. Append ,header=NAME or ,template='Basic me:{}' for another header or value. List the host in --allow, too. Repeatable."`
}

// secrets reads the values of the flags.
func (f *secretFlags) secrets(c *console) (map[string]belljar.Secret, error) {
	return secret.Parse(f.Secret, f.Broker, c.getenv)
}

// secretCommands are belljar secret ….
type secretCommands struct {
	Set secretSet    `cmd:"" help:"Store a secret on a server, for --secret NAME=from:STORED."`
	LS  secretList   `cmd:"" name:"ls" help:"List the stored secrets, without their values."`
	RM  secretRemove `cmd:"" name:"rm" help:"Remove stored secrets."`
}

// secretSet is belljar secret set.
type secretSet struct {
	Name     string `arg:"" name:"name" help:"Letters, digits and underscores."`
	FromFile string `placeholder:"FILE" help:"Read the value from a file instead of standard input."`
	Shared   bool   `help:"Let every user of the server use it (operators only)."`
	JSON     bool   `name:"json" help:"Print the secret, without its value, as one JSON object."`
}

func (s *secretSet) Help() string {
	return `Reads the value from standard input, or from a file. The server encrypts it, and shows it to no caller. A
secret of that name gets the new value; runs and sessions that have the old one keep it.

Examples:
  printenv API_TOKEN | belljar secret set API_TOKEN
  belljar secret set DEPLOY_KEY --from-file deploy_key
  belljar run --secret API_TOKEN=from:API_TOKEN fetch.py`
}

// Run stores a secret.
func (s *secretSet) Run(ctx context.Context, c *console) error {
	return c.remote(func(service belljar.Service) error {
		value, err := s.value(c)
		if err != nil {
			return err
		}
		spec := belljar.SecretSpec{Value: value, Shared: s.Shared}
		if err := spec.Validate(); err != nil { // a request cannot have bytes that are no text
			return err
		}
		set, err := service.Secrets().Set(ctx, s.Name, spec)
		if err != nil {
			return err
		}
		if s.JSON {
			return show.JSON(c.stdout, set)
		}
		c.aside("stored; --secret NAME=from:%s gives it to a run", set.Name)
		return nil
	})
}

func (s *secretSet) value(c *console) (string, error) {
	switch {
	case s.FromFile != "":
		value, err := secret.ReadFile(s.FromFile)
		if err != nil {
			return "", mistake.New("", "--from-file %s: %s", s.FromFile, mistake.Reason(err))
		}
		return value, nil
	case c.stdin == nil, show.IsTerminal(c.stdin):
		return "", mistake.New("printenv VARIABLE | belljar secret set "+s.Name+", or --from-file FILE", "the value comes from standard input, which has none")
	}
	value, err := secret.Read(c.stdin)
	if err == nil && value == "" {
		err = mistake.New("printenv VARIABLE | belljar secret set "+s.Name, "standard input is empty: it has no value for %s", s.Name)
	}
	return value, err
}

// secretList is belljar secret ls.
type secretList struct {
	JSON bool `name:"json" help:"Print one JSON array."`
}

// Run lists secrets.
func (l *secretList) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		list, err := s.Secrets().List(ctx)
		if err != nil {
			return err
		}
		return show.List(c.stdout, l.JSON, list, "NAME FOR SET", func(secret belljar.StoredSecret) []string {
			of := "you"
			if secret.Shared {
				of = "all"
			}
			return []string{secret.Name, of, show.RoughDuration(time.Since(secret.UpdatedAt)) + " ago"}
		})
	})
}

// secretRemove is belljar secret rm.
type secretRemove struct {
	Names  []string `arg:"" name:"name" help:"The secrets."`
	Shared bool     `help:"Remove shared ones (operators only)."`
	JSON   bool     `name:"json" help:"Print the names as one JSON array."`
}

// Run removes secrets and reports those that it cannot remove.
func (r *secretRemove) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		removed, err := mistake.Each(r.Names, func(name string) (string, error) { return name, s.Secrets().Remove(ctx, name, r.Shared) })
		if r.JSON {
			return c.printDone(true, removed, err)
		}
		return err
	})
}
