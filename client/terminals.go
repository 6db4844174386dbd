package client

import (
	"context"

	"github.com/belljar/belljar"
)

// terminals are those in sessions on the server.
type terminals struct{ c *Client }

var _ belljar.Terminals = terminals{}

func (terminals) Open(context.Context, string, belljar.TerminalSpec) (belljar.Terminal, error) {
	return belljar.Terminal{}, unbuilt()
}
func (terminals) Get(context.Context, string) (belljar.Terminal, error) {
	return belljar.Terminal{}, unbuilt()
}
func (terminals) List(context.Context, string) ([]belljar.Terminal, error) { return nil, unbuilt() }
func (terminals) Attach(context.Context, string) (belljar.Attachment, error) {
	return nil, unbuilt()
}
func (terminals) Close(context.Context, string) error { return unbuilt() }
