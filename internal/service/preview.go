package service

import (
	"context"
	"net"

	"github.com/belljar/belljar"
)

// OpenPreview returns the preview with a label if it is public, or one of the tokens is valid. The error is [belljar.CodeNotFound]
// or [belljar.CodeUnauthorized].
func (s *Service) OpenPreview(label string, tokens ...string) (belljar.Preview, error) {
	return s.ports.OpenPreview(label, tokens...)
}

// DialPreview connects to the port of a preview, for a request that [Service.OpenPreview] has admitted.
func (s *Service) DialPreview(ctx context.Context, label string) (net.Conn, error) {
	return s.ports.DialPreview(ctx, label)
}
