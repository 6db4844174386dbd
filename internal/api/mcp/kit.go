package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
)

// Options are shared by all clients of a process.
type Options struct {
	Version string
	// Runtimes are this server's runtimes. The schema of sandbox.run lists them after its fixed two.
	Runtimes []string
	// Image is the image of one-shot runs that name none; "" is host.
	Image string
	// Drain is how long calls may continue after the end of a client's input; 0 means a minute.
	Drain  time.Duration
	Logger *slog.Logger // nil discards
}

// Kit holds the tools for all clients. Make one with [New].
type Kit struct {
	opts  Options
	tools []*tool
	log   *slog.Logger
}

// New returns a kit.
func New(o Options) *Kit {
	o.Image, o.Drain = cmp.Or(o.Image, "host"), cmp.Or(o.Drain, time.Minute)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	tools := slices.Concat([]*tool{computeTool()}, sandboxTools(), []*tool{codeTool(), forkTool()}, fileTools(), []*tool{commandTool(o.Runtimes)})
	return &Kit{opts: o, log: o.Logger, tools: tools}
}

// tool is a tool as tools/list shows it, and its function.
type tool struct {
	sdk.Tool
	input schema // the InputSchema
	do    func(c *call, arguments []byte) (*reply, error)
}

// newTool returns a tool whose schemas follow from its types.
func newTool[In, Out any](name, title string, hints sdk.ToolAnnotations, do func(c *call, in In) (*reply, error), about string) *tool {
	input := schemaOf(reflect.TypeFor[In]())
	input["additionalProperties"] = false
	return &tool{input: input, do: decoding(do), Tool: sdk.Tool{
		Name: name, Title: title, Description: about, Annotations: &hints, InputSchema: input, OutputSchema: schemaOf(reflect.TypeFor[Out]()),
	}}
}

// The kinds of tools, for hosts that ask the user before they call one. All tools work inside sandboxes.
func reads() sdk.ToolAnnotations {
	return sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: new(false), OpenWorldHint: new(false)}
}
func adds(idempotent bool) sdk.ToolAnnotations {
	return sdk.ToolAnnotations{IdempotentHint: idempotent, DestructiveHint: new(false), OpenWorldHint: new(false)}
}
func destroys() sdk.ToolAnnotations {
	return sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: new(true), OpenWorldHint: new(false)}
}

// executes is the kind of tools that run programs. [clientSession.listed] sets whether they reach the outside.
func executes(destructive bool) sdk.ToolAnnotations {
	return sdk.ToolAnnotations{DestructiveHint: &destructive, OpenWorldHint: new(true)}
}

// reply is the answer of a tool.
type reply struct {
	text  string        // for models
	more  []sdk.Content // pictures, links
	value any           // for programs; it follows the tool's output schema
}

// Service returns the service of a client, for a call with a request id.
type Service func(requestID, traceID string) belljar.Service

// Client is a client and its terms.
type Client struct {
	Service Service
	Terms   Terms
	// Answers reserves bytes of memory for a large answer; nil if it has no limit.
	Answers func(ctx context.Context, bytes int64) (release func(), err error)
	// StreamURL returns the address at which the client can follow a run's log; nil if there is none.
	StreamURL func(run belljar.Run) string
}
