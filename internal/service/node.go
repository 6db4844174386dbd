package service

import (
	"context"

	"github.com/belljar/belljar"
)

// node is what this server can do, as one caller sees it.
type node struct{ view }

var _ belljar.Node = node{}

// Runtimes says what this server can do.
func (v node) Runtimes(context.Context) (belljar.Discovery, error) {
	return belljar.Discovery{}, absent("runtimes")
}

// Me says what the caller is and may do.
func (v node) Me(context.Context) (belljar.Me, error) { return belljar.Me{}, absent("me") }

// absent is what is not there yet.
func absent(what string) error {
	return &belljar.Error{Code: belljar.CodeInternal, Message: what + " is not built yet"}
}
