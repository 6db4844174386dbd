package service

import (
	"context"

	"github.com/belljar/belljar"
)

// sessions is the sessions of the service as one caller sees them.
type sessions struct{ view }

var _ belljar.Sessions = sessions{}

// Create makes a session.
func (v sessions) Create(context.Context, belljar.SessionRequest) (belljar.Session, error) {
	return belljar.Session{}, absent("sessions")
}

// Get returns a session.
func (v sessions) Get(context.Context, string) (belljar.Session, error) {
	return belljar.Session{}, absent("sessions")
}

// List returns the caller's sessions.
func (v sessions) List(context.Context, belljar.SessionQuery) (belljar.SessionPage, error) {
	return belljar.SessionPage{}, absent("sessions")
}

// Upload puts files into a session's workspace.
func (v sessions) Upload(context.Context, string, belljar.Upload) (belljar.UploadResult, error) {
	return belljar.UploadResult{}, absent("sessions")
}

// Delete ends a session.
func (v sessions) Delete(context.Context, string) error { return absent("sessions") }
