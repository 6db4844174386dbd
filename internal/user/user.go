// Package user has the names of users that belong to the server.
package user

import "github.com/belljar/belljar"

const (
	// Operator is the user of the server's own API key.
	Operator = "operator"
	// Server is the owner of what the server does for all users, such as the session that fills a Go build cache.
	Server = "server"
)

// Reserved reports whether a caller has one of these names, and is no operator: it would own what is the server's.
func Reserved(c belljar.Caller) bool {
	return (c.ID == Operator || c.ID == Server) && !c.Admin()
}
