package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/completion"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/template"
	"github.com/belljar/belljar/internal/cli/volume"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/notice"
)

// exitFailure is the status of every failure that is not the program's own.
const exitFailure = 125

// Options configure [Run].
type Options struct {
	local.Environment
	Version string
	Commit  string
	Machine local.Machine
}

// Run executes args (without the program's name) and returns the exit status.
func Run(ctx context.Context, args []string, o Options) int {
	// A write to a closed pipe or connection must be an error of the write, not end this process. Ignoring SIGPIPE is no option, because
	// child processes would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log.SetOutput(io.Discard) // libraries log connection details there; failures are returned as errors
	c := &console{
		Writer: notice.Writer{Stderr: o.Stderr}, env: o.Env, stdin: o.Stdin, stdout: o.Stdout,
		version: o.Version, commit: o.Commit, machine: o.Machine,
	}
	return c.run(ctx, args)
}

// commands is the grammar of the command line.
type commands struct {
	Help       helpFlag `short:"h" help:"Show help."`
	Server     string   `group:"server" placeholder:"URL" help:"Use this server instead of this machine (or set BELLJAR_SERVER)."`
	APIKeyFile string   `group:"server" name:"api-key-file" placeholder:"FILE" help:"Read the API key from a file (or set BELLJAR_API_KEY)."`

	Run        runCommand        `cmd:"" help:"Run a program in a sandbox, on this machine or on a server."`
	PS         psCommand         `cmd:"" name:"ps" help:"List runs on a server."`
	Logs       logsCommand       `cmd:"" help:"Show what a run on a server printed."`
	Cancel     cancelCommand     `cmd:"" help:"End runs on a server."`
	Session    sessionCommands   `cmd:"" help:"Keep a sandbox on a server."`
	REPL       replCommand       `cmd:"" name:"repl" help:"Type code to an interpreter in a sandbox, on this machine or on a server."`
	Network    networkCommands   `cmd:"" help:"Show what a program may reach over the network."`
	Image      imageCommands     `cmd:"" help:"Manage the root file systems that programs run in, on this machine or on a server."`
	Artifact   artifactCommands  `cmd:"" help:"List and fetch the artifacts of a run on a server."`
	Template   template.Commands `cmd:"" help:"Name environments for sessions and runs on a server."`
	Volume     volume.Commands   `cmd:"" help:"Keep workspaces on the disk of a server."`
	Snapshot   snapshotCommands  `cmd:"" help:"Save the files of sessions on a server."`
	Secret     secretCommands    `cmd:"" help:"Store secrets on a server, for runs and sessions."`
	Approval   approvalCommands  `cmd:"" help:"Approve or deny requests that wait for an operator (operators only)."`
	Token      tokenCommands     `cmd:"" help:"Manage a server's API keys (operators only), and sign in to its web page."`
	Me         meCommand         `cmd:"" help:"Show your user on a server, and your rights and quota."`
	Runtimes   runtimesCommand   `cmd:"" help:"List the runtimes of a server."`
	Serve      serveCommand      `cmd:"" help:"Serve the HTTP and WebSocket API."`
	MCP        mcpCommand        `cmd:"" name:"mcp" help:"Give models tools that run code, over MCP on standard input and output."`
	LSP        lspCommand        `cmd:"" name:"lsp" help:"Run files and tests from an editor, over the Language Server Protocol on standard input and output."`
	Doctor     doctorCommand     `cmd:"" help:"Show which isolation this host provides, what is weaker and how to fix it."`
	Bench      benchCommand      `cmd:"" help:"Measure this host, and compare Belljar with bubblewrap, runc and Docker."`
	Completion completionCommand `cmd:"" help:"Print a completion script for a shell."`
	Version    versionCommand    `cmd:"" help:"Print version and build."`
	Keep       keepCommand       `cmd:"" hidden:"" help:"Look after a sandbox, for a runtime."`
	HelpOn     helpCommand       `cmd:"" name:"help" help:"Show help on a command."`
}

// run parses and executes one command line, without the program's name.
func (c *console) run(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == "--version" {
		args = []string{"version"}
	}
	grammar := grammarFor(args)
	parser, err := c.parser(grammar)
	if err != nil {
		return c.fail(err)
	}
	if len(args) == 0 {
		fmt.Fprintln(c.Stderr, "belljar: no command given")
		fmt.Fprintln(c.Stderr, "hint: belljar run hello.py, or belljar --help")
		return exitFailure
	}
	parsed, err := parser.Parse(args)
	if errors.Is(err, errHelpShown) {
		return 0
	}
	switch {
	case readerGone(err): // while it printed help
		return exitPipe
	case err != nil:
		return c.failIn(slices.Contains(args, "--json"), usageError(err))
	}
	c.flags = ownFlags(parsed.Selected())
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.BindTo(partConsole{c}, (*volume.Console)(nil))
	parsed.BindTo(partConsole{c}, (*template.Console)(nil))
	if err = c.choose(parsed, grammar); err == nil {
		err = parsed.Run(c)
	}
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case readerGone(err):
		return exitPipe
	}
	return c.failIn(asksJSON(parsed), err)
}

// exitPipe is the status after the reader of our output has closed it, as head does: that of a program which SIGPIPE ends.
const exitPipe = 128 + int(syscall.SIGPIPE)

// readerGone reports whether an error is that of a write to a pipe without a reader. Connections return other errors.
func readerGone(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at) && errors.Is(at, syscall.EPIPE)
}

// asksJSON reports whether the command line sets the command's --json.
func asksJSON(parsed *kong.Context) bool {
	return slices.ContainsFunc(parsed.Flags(), func(f *kong.Flag) bool { return f.Name == "json" && f.Target.Bool() })
}

func (c *console) parser(grammar any) (*kong.Kong, error) {
	return kong.New(grammar,
		kong.Name("belljar"),
		kong.Description("Runs untrusted code in sandboxes."),
		kong.Writers(c.stdout, c.Stderr),
		kong.NoDefaultHelp(),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.WithHyphenPrefixedParameters(true),
		kong.ExplicitGroups(runGroups()),
		kong.KindMapper(reflect.String, kong.MapperFunc(decodeText)),
	)
}

// noValue is the message for a flag at the end of the command line whose value is missing.
const noValue = "its value is missing"

// decodeText keeps bytes that are not UTF-8, which file names can have. Kong replaces them. It refuses a flag with an empty value, as of an
// unset variable of a shell, because the command would ignore the flag. Flags with the tag empty have another message, or mean it.
func decodeText(from *kong.DecodeContext, to reflect.Value) error {
	token, err := from.Scan.PopValue("string")
	switch {
	case err != nil:
		return err
	case token.IsEOL(): // its text would be EOL
		return errors.New(noValue)
	case token.String() == "" && from.Value.Flag != nil && !from.Value.IsMap() && !from.Value.Tag.Has("empty"):
		return errors.New("its value is empty")
	}
	to.SetString(token.String())
	return nil
}

// usageError turns a command-line error into a failure with a hint.
func usageError(err error) error {
	message, suggestion, suggested := strings.Cut(err.Error(), ", did you mean ")
	message = strings.NewReplacer(
		"expected a valid 64 bit int but got", "must be a whole number, got", "expected a valid 64 bit uint but got", "must be a whole number from 0, got",
	).Replace(message)
	flag, why, _ := strings.Cut(message, ": ")
	if strings.HasPrefix(why, "missing value, expecting") || strings.HasSuffix(why, `but got "EOL" (<nil>)`) {
		message = flag + ": " + noValue
	}
	var at *kong.ParseError
	var selected *kong.Node
	if errors.As(err, &at) {
		selected = at.Context.Selected()
	}
	word, unexpected := strings.CutPrefix(message, "unexpected argument ")
	unexpected = unexpected && (selected == nil || len(selected.Children) > 0)
	if unexpected {
		message = cmp.Or(word, `""`) + " is not a command"
	}
	hint, lists := "belljar --help lists the commands", "flags"
	if selected != nil {
		if len(selected.Children) > 0 {
			lists = "commands"
		}
		hint = "belljar " + commandOf(selected) + " --help lists the " + lists
	}
	near := strings.FieldsFunc(strings.TrimPrefix(suggestion, "one of "), func(c rune) bool { return strings.ContainsRune(`", ?`, c) })
	if unexpected { // the other names are only guesses
		near = slices.DeleteFunc(near, func(name string) bool { return word == "" || name[0] != word[0] })
		if same := grouped(at, word); same != nil {
			near = same
		}
	}
	flag, unknown := strings.CutPrefix(message, "unknown flag -")
	if command := commandIn(at); unknown && command != nil && hasFlag(command, flag) {
		hint = fmt.Sprintf("write the flags of %s after it: belljar %s -%s", command.Name, commandOf(command), flag)
	} else if unknown && suggested && len(flag) == 1 { // so is another short flag
		if selected != nil && len(selected.Positional) > 0 {
			hint += "; put arguments that start with a dash after --"
		}
	} else if unexpected && selected == nil && strings.ContainsAny(word, "./") { // no command has a name like that
		hint = "to run a file: belljar run " + show.Word(word)
	} else if len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: message, Hint: hint}
}

// grouped returns the commands of groups that have a name, such as session exec for exec: three at most, as more are no hint.
func grouped(at *kong.ParseError, name string) (all []string) {
	if at == nil || at.Context.Selected() != nil {
		return nil
	}
	for _, group := range at.Context.Model.Children {
		for _, command := range group.Children {
			if command.Name == name {
				all = append(all, "belljar "+commandOf(command))
			}
		}
	}
	if len(all) > 3 {
		return nil
	}
	return all
}

// commandIn returns the command that a later argument names, if the flags before it come too early; else nil.
func commandIn(at *kong.ParseError) *kong.Node {
	if at == nil {
		return nil
	}
	group := cmp.Or(at.Context.Selected(), at.Context.Model.Node)
	for _, arg := range at.Context.Args {
		if i := slices.IndexFunc(group.Children, func(c *kong.Node) bool { return c.Name == arg }); i >= 0 {
			return group.Children[i]
		}
	}
	return nil
}

// hasFlag reports whether a command has a flag: "-timeout", or "t" for its short name.
func hasFlag(command *kong.Node, name string) bool {
	return slices.ContainsFunc(completion.Flags(command), func(f *kong.Flag) bool { return name == "-"+f.Name || name == string(f.Short) })
}

// ownFlags lists the long flags of a command as the user types them, and the short flags for limits. It omits --help and other short
// flags, because programs often have the same.
func ownFlags(node *kong.Node) (all []string) {
	for _, flag := range completion.Flags(node) {
		if flag.Name != "help" {
			all = append(all, "--"+flag.Name)
		}
		if flag.Short != 0 && flag.Group != nil && flag.Group.Key == "limits" {
			all = append(all, "-"+string(flag.Short))
		}
	}
	return all
}

// commandOf returns a command with its parents, as the user types it.
func commandOf(node *kong.Node) string {
	name := node.Name
	for up := node.Parent; up != nil && up.Type == kong.CommandNode; up = up.Parent {
		name = up.Name + " " + name
	}
	return name
}
