package service

import (
	"context"

	"github.com/belljar/belljar"
)

// terminals is the terminals in sessions as one caller sees them.
type terminals struct{ view }

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
