package mcp

import (
	"log/slog"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
)

// Options is what all clients of a process share.
type Options struct {
	Version string
	// Runtimes are those of this server, which sandbox.run's schema lists besides its fixed two.
	Runtimes []string
	// Image is that of one-shot runs that name none; "" is host.
	Image  string
	Logger *slog.Logger // nil is silent
}

// Kit is the tools, ready to be given to clients. Make one with [New].
type Kit struct {
	opts  Options
	tools []*tool
	log   *slog.Logger
}

// New returns a kit.
func New(o Options) (*Kit, error) {
	if o.Image == "" {
		o.Image = "host"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Kit{opts: o, log: o.Logger, tools: slices.Concat(computeTools(), sessionTools(), fileTools(), []*tool{commandTool(o.Runtimes)})}
	return k, nil
}

// tool is one of the tools: what is said about it, and what it does.
type tool struct {
	name, title, about string
	hints              sdk.ToolAnnotations
	input, output      schema
	do                 func(c *call, arguments []byte) (*reply, error)
}

// newTool returns a tool whose schemas are those of its types.
func newTool[In, Out any](name, title string, hints sdk.ToolAnnotations, do func(c *call, in In) (*reply, error), about string) *tool {
	return &tool{name: name, title: title, about: about, hints: hints, input: takes[In](), output: gives[Out](), do: decoded(do)}
}

// described is a tool as tools/list has it.
func (t *tool) described() *sdk.Tool {
	hints := t.hints
	return &sdk.Tool{
		Name: t.name, Title: t.title, Description: t.about, Annotations: &hints, InputSchema: t.input, OutputSchema: t.output,
	}
}

// The kinds of tools, for hosts that ask people before they call one. None of them touches anything but sandboxes.
func reads() sdk.ToolAnnotations {
	return sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: is(false), OpenWorldHint: is(false)}
}
func adds(again bool) sdk.ToolAnnotations {
	return sdk.ToolAnnotations{IdempotentHint: again, DestructiveHint: is(false), OpenWorldHint: is(false)}
}
func destroys(again bool) sdk.ToolAnnotations {
	return sdk.ToolAnnotations{IdempotentHint: again, DestructiveHint: is(true), OpenWorldHint: is(false)}
}

func is(b bool) *bool { return &b }

// reply is what a tool answers.
type reply struct {
	text  string        // for models
	more  []sdk.Content // pictures, links
	value any           // for programs: what the tool's output schema says
}

// Service returns what a client works with, for a call that came with a request id.
type Service func(requestID, traceID string) belljar.Service

// Client is who is served, and on what terms.
type Client struct {
	Service Service
	Terms   Terms
	// StreamURL is where a run's log can be followed; nil is nowhere.
	StreamURL func(run belljar.Run) string
}
