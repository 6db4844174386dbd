package rest_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/belljar/belljar"
)

// harbour holds the ports of session s1.
type harbour struct{ belljar.Ports }

func (harbour) known(id string) error {
	if id != "s1" {
		return missing("session")
	}
	return nil
}

func (h harbour) List(_ context.Context, id string) ([]belljar.Port, error) {
	return []belljar.Port{{Port: 3000, Address: "127.0.0.1", Program: "node", PID: 7}}, h.known(id)
}

func (h harbour) Preview(_ context.Context, id string, spec belljar.PreviewSpec) (belljar.Preview, error) {
	if err := spec.Validate(); err != nil {
		return belljar.Preview{}, err
	}
	return belljar.Preview{Label: fmt.Sprintf("label%d", spec.Port), SessionID: id, Port: spec.Port, CreatedAt: now(), ExpiresAt: now(), Token: "secret"}, h.known(id)
}

func (h harbour) Previews(_ context.Context, id string) ([]belljar.Preview, error) {
	return []belljar.Preview{{Label: "label1", SessionID: id, Port: 1, Public: true, CreatedAt: now(), ExpiresAt: now()}}, h.known(id)
}

func (h harbour) Revoke(_ context.Context, id, label string) error {
	if label != "label1" {
		return missing("preview")
	}
	return h.known(id)
}

// previewURL is the address of a preview.
func previewURL(_ *http.Request, label string) string {
	return "https://" + label + ".preview.example.net/"
}
